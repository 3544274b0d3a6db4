import type { Batches } from '../../../api/ledger/batches';
import type * as calls from '../../../domain/ledger/calls';
import * as walletSettings from '../../../domain/ledger/wallet-settings';
import type { Db } from '../../../domain/sql';
import { runBothWays } from '../../support/both-ways';
import {
  chat,
  credit,
  makeFundedOrg,
  makeOrg,
  makePrice,
  openLedger,
  reserveBody,
  TOKEN,
} from '../../support/ledger';

// A request of several choices without a cap: the ledger chooses the cap, and holds it for each.

let db: Db;
let lanes: Batches;
let close: () => Promise<void>;

beforeAll(async () => {
  ({ db, lanes, close } = await openLedger());
  await makePrice(db, { model: 'short', max_output_tokens: 1_000 });
});

afterAll(() => close());

const uncapped = (org_id: string, more: Partial<calls.Reserve>) =>
  reserveBody(org_id, 100, { max_completion_tokens: null, ...more });

test.each<[string, number, Partial<calls.Reserve>, bigint]>([
  ['more than is usual, by the organization', 16_000, { choices: 2 }, 32_000n],
  ['less than is usual, by the organization', 256, { choices: 2 }, 512n],
  ['the most, by the organization', 100_000_000, { choices: 128 }, 12_800_000_000n],
  ['what the price allows', 16_000, { model: 'short', choices: 3 }, 3_000n],
  ['less than the price allows', 256, { model: 'short', choices: 3 }, 768n],
  [
    'the longest of the candidates',
    16_000,
    { model: 'short', choices: 3, fallbacks: [chat] },
    48_000n,
  ],
  ['one choice', 256, { choices: 1 }, 256n],
  ['no word of choices', 256, { choices: null }, 256n],
  ['a cap, which is for all of them', 16_000, { choices: 2, max_completion_tokens: 100 }, 100n],
  ['a cap of nothing', 16_000, { choices: 2, max_completion_tokens: 0 }, 0n],
])(
  'what is held for without a cap is the same alone and in a batch: %s',
  async (_, default_max_completion_tokens, more, max_completion_tokens) => {
    const org = await makeFundedOrg(db, 100_000_000_000, { default_max_completion_tokens });
    const reserve = uncapped(org.org_id, more);
    const { alone, batch, answers, taken } = await runBothWays(db, org.org_id, { reserve });
    expect(alone).toEqual(batch);
    expect(taken?.reserve).toBe(more.fallbacks === undefined);
    const reserved_amount_nanos = (100n + 2n * max_completion_tokens) * TOKEN;
    expect(answers).toMatchObject([{ code: null, max_completion_tokens, reserved_amount_nanos }]);
  },
);

test('another number of choices is another request', async () => {
  const org = await makeFundedOrg(db, 1_000_000);
  const body = uncapped(org.org_id, { choices: 2 });
  const hold = await lanes.reserve(body);
  expect(hold).toMatchObject({ code: null, max_completion_tokens: 8_192n });
  expect((await lanes.reserve(body)).reservation_id).toBe(hold.reservation_id);
  const other = await lanes.reserve({ ...body, choices: 3 });
  expect(other.code).toBe('idempotency_key_reused');
});

test('a ticket is for all choices, and is redeemed for all of them by the setting of that moment', async () => {
  const org = await makeOrg(db, { default_max_completion_tokens: 16_000 });
  const { org_id } = org;
  const body = uncapped(org_id, { choices: 2 });
  const { cost_ticket } = await lanes.reserve(body);
  expect(cost_ticket).toMatchObject({ estimated_cost_nanos: String(64_100n * TOKEN) });
  const redeem = () =>
    lanes.redeem({
      org_id,
      ticket_id: cost_ticket?.id as string,
      request_id: body.request_id,
      request_body_hash: body.request_body_hash,
      wait_ms: 0,
    });
  await walletSettings.change(db, org_id, { default_max_completion_tokens: 256 });
  await credit(db, org_id, org.org_wallet, 1_123n * TOKEN);
  expect((await redeem()).code).toBe('insufficient_balance');
  await credit(db, org_id, org.org_wallet, 1n * TOKEN);
  expect(await redeem()).toMatchObject({
    code: null,
    max_completion_tokens: 512n,
    reserved_amount_nanos: 1_124n * TOKEN,
  });
});
