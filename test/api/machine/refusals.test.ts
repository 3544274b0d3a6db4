import { randomUUID } from 'node:crypto';
import * as excess from '../../../domain/ledger/excess';
import * as tokens from '../../../domain/people/tokens';
import type { Db } from '../../../domain/sql';
import {
  type Answer,
  type CallApi,
  makeTenant,
  refusal,
  startApi,
  type Tenant,
} from '../../support/api';
import { gatewayToken, makeKey, platformKey } from '../../support/keys';
import { BODY_HASH, makePrice, reserveBody } from '../../support/ledger';

let db: Db;
let call: CallApi;
let close: () => Promise<void>;
let key: string;
let platform: string;

beforeAll(async () => {
  ({ db, call, close } = await startApi());
  key = await gatewayToken(db);
  platform = await platformKey(db);
  await makePrice(db);
});

afterAll(() => close());

function post(path: string, body: unknown, headers: Record<string, string> = {}): Promise<Answer> {
  return call('post', `/v1/gateway/${path}`, { key, body, headers });
}

const reserve = (body: unknown) => post('wallets/reserve', body);
const settle = (body: unknown) => post('wallets/settle', body);

async function funded(amount: number): Promise<Tenant> {
  const tenant = await makeTenant(db);
  const body = { org_id: tenant.org_id, target_wallet_owner_type: 'organization', amount };
  await call('post', '/v1/admin/wallets/credit', { key: platform, body });
  return tenant;
}

test('an insufficient balance is 402 with the ticket at the top and inside the error', async () => {
  const { org_id } = await funded(0.001);
  const answer = await reserve(reserveBody(org_id, 3_000));
  expect(refusal(answer)).toMatchObject({ status: 402, code: 'insufficient_balance' });
  expect(answer.headers['x-should-retry']).toBe('false');
  expect(answer.body.cost_ticket).toMatchObject({
    id: expect.stringMatching(/^ticket_/),
    estimated_cost: 0.003,
    balance: 0.001,
    shortfall: 0.002,
    provider: 'openai',
    model: 'gpt-4o-mini',
    expires_at: expect.any(String),
  });
  expect(answer.body.error.cost_ticket).toEqual(answer.body.cost_ticket);
});

test('each refusal of a reserve has its status and code', async () => {
  const { org_id, member_id } = await funded(1);
  const spent_key = await tokenId(org_id, { max_budget_nanos: 1n });
  const dead_key = await tokenId(org_id, {});
  await db('tokens').where({ id: dead_key }).update({ revoked_at: new Date() });
  const request_id = randomUUID();
  await settle({ org_id, request_id, outcome: 'canceled' });
  const euros = await makeTenant(db, 'EUR');
  const refused = async (body: object) =>
    refusal(await reserve({ ...reserveBody(org_id, 10), ...body }));
  expect(await refused({ key_id: dead_key })).toMatchObject({
    status: 401,
    code: 'invalid_credential',
  });
  expect(await refused({ key_id: spent_key })).toMatchObject({
    status: 403,
    code: 'key_budget_exceeded',
  });
  const spent = await reserve({ ...reserveBody(org_id, 10), key_id: spent_key });
  expect(spent.body.error).toMatchObject({
    message: expect.stringMatching(
      /^The budget of this key allows [\d.]+ USD in all, of which [\d.]+ are/,
    ),
    budget: { id: null, owner_type: 'key', owner_id: spent_key, window: 'life', resets_at: null },
  });
  expect(spent.body.error.budget).toMatchObject({
    ...{ limit: expect.any(Number), used: expect.any(Number) },
  });
  expect(await refused({ model: 'gpt-4o-mini-2024-07-18' })).toMatchObject({
    status: 422,
    code: 'model_not_priced',
  });
  expect(await refused({ request_id })).toMatchObject({ status: 409, code: 'request_canceled' });
  expect(await refused({ org_id: euros.org_id })).toMatchObject({
    status: 422,
    code: 'exchange_rate_missing',
  });
  expect(await refused({ org_id: 'org_unknown' })).toMatchObject({ status: 422, param: 'org_id' });
  expect(await refused({ org_id: euros.org_id, user_id: member_id })).toMatchObject({
    status: 422,
    param: 'user_id',
  });
});

async function tokenId(org_id: string, more: Partial<tokens.NewToken>): Promise<string> {
  const name = randomUUID();
  await makeKey(db, org_id, { name, token_type: 'gateway', ...more });
  return (await tokens.find(db, org_id, name)).id;
}

const counts = ['-1', '0.5', '"1"', '1e400', 'true', '9007199254740993'];
const hash = `"request_body_hash": "${BODY_HASH}"`;

test.each(['estimated_prompt_tokens', 'max_completion_tokens'])(
  'a reserve whose %s is no count is refused',
  async (field) => {
    const { org_id } = await funded(1);
    const model = '"provider": "openai", "model": "gpt-4o-mini"';
    const other = field === 'estimated_prompt_tokens' ? '' : '"estimated_prompt_tokens": 1,';
    for (const count of counts) {
      const answer = await reserve(
        `{"org_id": "${org_id}", ${model}, ${hash}, ${other} "${field}": ${count}}`,
      );
      expect({ count, ...refusal(answer) }).toMatchObject({ count, status: 422, param: field });
    }
  },
);

test.each(['prompt_tokens', 'completion_tokens', 'seconds'])(
  'a settle whose %s is no count is refused, and nothing is written',
  async (field) => {
    const { org_id } = await funded(1);
    const { reservation_id } = (await reserve(reserveBody(org_id, 10))).body;
    for (const count of field === 'seconds' ? ['-1', '"1"', '1e400'] : counts) {
      const answer = await settle(
        `{"org_id": "${org_id}", "reservation_id": "${reservation_id}", "outcome": "completed", "usage": {"${field}": ${count}}}`,
      );
      expect({ count, ...refusal(answer) }).toMatchObject({
        count,
        status: 422,
        param: `usage.${field}`,
      });
    }
    expect(
      (await settle({ org_id, reservation_id, outcome: 'canceled' })).body.released_amount,
    ).toBe(0.00001);
  },
);

test.each([
  [{ outcome: 'completed', reservation_id: 'a', request_id: 'b', usage: {} }, 'reservation_id'],
  [{ outcome: 'completed', usage: {} }, 'reservation_id'],
  [{ outcome: 'completed', reservation_id: 'a' }, 'usage'],
  [{ outcome: 'paid', reservation_id: 'a', usage: {} }, 'outcome'],
  [{ outcome: 'canceled', request_id: 'a', org_id: undefined }, 'org_id'],
  [
    { outcome: 'completed', reservation_id: 'a', usage: { prompt_tokens: 1, cached_tokens: 2 } },
    'usage.prompt_tokens',
  ],
  [
    {
      outcome: 'completed',
      reservation_id: 'a',
      usage: { completion_tokens: 1, reasoning_tokens: 2 },
    },
    'usage.completion_tokens',
  ],
  [{ outcome: 'completed', reservation_id: 'a', usage: { total_tokens: 1 } }, 'usage.total_tokens'],
])('a settle of %j is refused by name', async (body, param) => {
  expect(refusal(await settle({ org_id: 'org_x', ...body }))).toMatchObject({ status: 422, param });
});

test('session limits without a session are refused, since nothing would be counted', async () => {
  const { org_id } = await funded(1);
  const answer = await reserve({
    ...reserveBody(org_id, 10),
    session_limits: { max_actions: 1 },
  });
  expect(refusal(answer)).toEqual({ status: 422, code: 'invalid_field', param: 'session_id' });
});

test('an answer that the frozen price would charge nothing for is refused, and a free model is not', async () => {
  const { org_id } = await funded(1);
  const { body: held } = await reserve(reserveBody(org_id, 10));
  const settled = (usage: object) =>
    settle({ org_id, reservation_id: held.reservation_id, outcome: 'completed', usage });
  for (const usage of [{}, { seconds: 30 }, { characters: 5, tool_calls: 1 }])
    expect(refusal(await settled(usage))).toEqual({
      status: 422,
      code: 'invalid_field',
      param: 'usage',
    });
  expect((await settled({ prompt_tokens: 1, seconds: 30 })).body.status).toBe('settled');
  await makePrice(db, { model: 'gratis', input_per_1m: 0, output_per_1m: 0, free: true });
  const free = await reserve({ ...reserveBody(org_id, 10), model: 'gratis' });
  const { reservation_id } = free.body;
  expect(
    (await settle({ org_id, reservation_id, outcome: 'completed', usage: {} })).body,
  ).toMatchObject({ status: 'settled', actual_cost: 0 });
});

test('a cost that would take a wallet deeper into debt than it can hold is refused, and can be settled lower', async () => {
  const { org_id } = await funded(1);
  await makePrice(db, { model: 'vast', input_per_1m: 1_000_000, output_per_1m: 0 });
  const hold = async () =>
    (await reserve({ ...reserveBody(org_id, 0), model: 'vast' })).body.reservation_id;
  const [first, second] = [await hold(), await hold()];
  const settled = (reservation_id: string, prompt_tokens: number) =>
    settle({ org_id, reservation_id, outcome: 'completed', usage: { prompt_tokens } });
  // The bound of a charge alone does not lead there: a person charged what lay beyond it.
  expect((await settled(first, 8_999_999_999)).body).toMatchObject({ actual_cost: 10 });
  const { rows } = await excess.list(
    db,
    { org_id, status: 'open' },
    { sort: '-created_at', page: 1, per_page: 1 },
  );
  await excess.decide(db, { id: rows[0]?.id as string, action: 'charge', by: 'somebody' });
  expect(refusal(await settled(second, 2_000_000_000))).toEqual({
    status: 422,
    code: 'amount_too_large',
    param: 'usage',
  });
  expect((await settled(second, 1)).body.status).toBe('settled');
});
