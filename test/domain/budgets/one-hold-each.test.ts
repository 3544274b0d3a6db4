import { randomUUID } from 'node:crypto';
import type { Batches } from '../../../api/ledger/batches';
import * as rules from '../../../domain/ledger/approval-rules';
import type * as calls from '../../../domain/ledger/calls';
import { type ItemAnswer, reserveItem } from '../../../domain/ledger/reservations';
import * as verdicts from '../../../domain/ledger/verdicts';
import { type Db, many, one } from '../../../domain/sql';
import {
  credit,
  makeFundedOrg,
  makeOrg,
  openLedger,
  reserveBody,
  settleBody,
  type TestOrg,
  TOKEN,
} from '../../support/ledger';
import { makeBudget, ownBody } from './making';

let db: Db;
let lanes: Batches;
let close: () => Promise<void>;

beforeAll(async () => {
  ({ db, lanes, close } = await openLedger());
});

afterAll(() => close());

/** Two calls with one body, of which the first asks for more. */
function twins(org_id: string, more: Partial<calls.Reserve>): [calls.Reserve, calls.Reserve] {
  const body = { ...more, ...ownBody() };
  return [reserveBody(org_id, 12, body), reserveBody(org_id, 10, body)];
}

async function together(org_id: string, reserves: calls.Reserve[]): Promise<ItemAnswer[]> {
  const rows = await many<{ row: ItemAnswer }>(
    db,
    `select to_jsonb(r) as row from lane_4(:org_id, '[]', '[]', :reserves, '{}') as r`,
    { org_id, reserves: JSON.stringify(reserves.map(reserveItem)) },
  );
  return rows.map(({ row }) => row).sort((a, b) => a.n - b.n);
}

async function apart(reserves: calls.Reserve[]): Promise<ItemAnswer[]> {
  const answers: ItemAnswer[] = [];
  for (const body of reserves) answers.push(await lanes.reserve(body));
  return answers;
}

async function holdsOf(org_id: string) {
  return many<{ request_id: string; held_nanos: bigint }>(
    db,
    `select request_id, held_nanos from reservations where org_id = :org_id and status = 'open' order by held_nanos desc`,
    { org_id },
  );
}

function makeRule(org_id: string, tokens_a_day: number) {
  return rules.create(db, {
    org_id,
    name: 'Small calls',
    team_id: null,
    max_per_call_nanos: BigInt(Math.min(tokens_a_day, 50)) * TOKEN,
    max_per_day_nanos: BigInt(tokens_a_day) * TOKEN,
    source: 'organization',
    created_by: 'test',
  });
}

/** What keeps a call from being paid: a budget, or that no wallet alone has enough. */
const shortages = {
  budget: async () => {
    const org = await makeFundedOrg(db, 1_000);
    await makeBudget(db, org, 0, { on_exceed: 'ticket', thresholds: [] });
    return { org, more: {} };
  },
  money: async () => {
    const org = await makeOrg(db);
    await credit(db, org.org_id, org.org_wallet, 9n * TOKEN);
    await credit(db, org.org_id, org.user_wallet, 9n * TOKEN);
    return { org, more: { user_id: org.user_id } };
  },
} satisfies Record<string, () => Promise<{ org: TestOrg; more: Partial<calls.Reserve> }>>;

test.each(['in one batch', 'in two'])(
  'a rule for both gives each of two calls its own hold, %s',
  async (way) => {
    const { org, more } = await shortages.budget();
    await makeRule(org.org_id, 100);
    const pair = twins(org.org_id, more);
    const rows = way === 'in two' ? await apart(pair) : await together(org.org_id, pair);
    expect(rows.map(({ code }) => code)).toEqual([null, null]);
    expect(new Set(rows.map(({ reservation_id }) => reservation_id)).size).toBe(2);
    expect(await holdsOf(org.org_id)).toEqual([
      { request_id: pair[0].request_id, held_nanos: 12n * TOKEN },
      { request_id: pair[1].request_id, held_nanos: 10n * TOKEN },
    ]);
    // Each settles its own, and a repeat of a reserve finds its own.
    const again = await apart(pair);
    expect(again.map(({ reservation_id }) => reservation_id)).toEqual(
      rows.map(({ reservation_id }) => reservation_id),
    );
    for (const { reservation_id } of rows)
      expect(await lanes.settle(settleBody(org.org_id, reservation_id, 5))).toMatchObject({
        code: null,
      });
  },
);

test.each([
  ['budget', 'in one batch'],
  ['budget', 'in two'],
  ['money', 'in one batch'],
  ['money', 'in two'],
] as const)(
  'a rule for one (%s, %s) holds for one call, and the other has a ticket of its own',
  async (cause, way) => {
    const { org, more } = await shortages[cause]();
    await makeRule(org.org_id, 12);
    const pair = twins(org.org_id, more);
    const rows = way === 'in two' ? await apart(pair) : await together(org.org_id, pair);
    expect(rows.map(({ code }) => code)).toEqual([null, 'insufficient_balance']);
    expect(await holdsOf(org.org_id)).toEqual([
      { request_id: pair[0].request_id, held_nanos: 12n * TOKEN },
    ]);
    const ticket = await one<{ status: string; asked_by: string }>(
      db,
      `select status, reserve ->> 'request_id' as asked_by from cost_tickets where id = :id`,
      { id: String(rows[1]?.cost_ticket?.id) },
    );
    expect(ticket).toEqual({ status: 'open', asked_by: pair[1].request_id });
  },
);

test.each(['budget', 'money'] as const)(
  "a person's yes (%s) is for one of two waiting calls",
  async (cause) => {
    const { org, more } = await shortages[cause]();
    const { org_id } = org;
    const pair = twins(org_id, more);
    const rows = await together(org_id, pair);
    const ticket_id = String(rows[0]?.cost_ticket?.id);
    expect(rows[1]?.cost_ticket?.id).toBe(ticket_id);
    const redeem = ({ request_id, request_body_hash, user_id }: calls.Reserve, wait_ms: number) =>
      lanes.redeem({ org_id, ticket_id, request_id, request_body_hash, user_id, wait_ms });
    const waiting = await Promise.all(pair.map((body) => redeem(body, 50)));
    expect(waiting.map(({ code }) => code)).toEqual([
      'insufficient_balance',
      'insufficient_balance',
    ]);
    await verdicts.decide(db, {
      id: randomUUID(),
      ticket_id,
      org_id,
      verdict: 'approved',
      by: 'user_1',
      is_platform: true,
      valid_until: await verdicts.verdictDeadline(db),
    });
    const paid = await Promise.all(pair.map((body) => redeem(body, 0)));
    expect(paid.filter(({ code }) => code === null)).toHaveLength(1);
    expect(await holdsOf(org_id)).toHaveLength(1);
  },
);
