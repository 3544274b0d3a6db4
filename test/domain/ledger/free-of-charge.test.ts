import type { Batches } from '../../../api/ledger/batches';
import type * as calls from '../../../domain/ledger/calls';
import * as constraints from '../../../domain/ledger/constraints';
import * as organizations from '../../../domain/people/organizations';
import { type Db, many } from '../../../domain/sql';
import { issueKey } from '../../support/keys';
import {
  balance,
  makeFundedOrg,
  makeOwnKey,
  makePrice,
  openLedger,
  reserveBody,
  settleBody,
  TOKEN,
  usage,
} from '../../support/ledger';
import { makeBudget } from '../budgets/making';

let db: Db;
let lanes: Batches;
let close: () => Promise<void>;

beforeAll(async () => {
  ({ db, lanes, close } = await openLedger());
  await makePrice(db, { model: 'gratis', free: true });
  await makePrice(db, { model: 'fee', per_request: 0.000_7 });
  // No estimate knows how many tools a call will use.
  await makePrice(db, { provider: 'acme', model: 'tools', per_tool_call: 0.01 });
  const regions = JSON.stringify({ eu: { per_request: 0.000_7 } });
  await makePrice(db, { model: 'regional', regions });
});

afterAll(() => close());

/** An organization that owes 5 tokens, and a caller who has spent 5 beyond each limit. */
async function makeDebtor() {
  const org = await makeFundedOrg(db, 100);
  const { org_id, user_id, team_id } = org;
  const { id: key_id } = await issueKey(db, org_id, {
    ...{ token_type: 'gateway', max_budget_nanos: 100n * TOKEN },
  });
  const { id: agent_id } = await organizations.createAgent(db, org_id, 'capped');
  await constraints.create(
    db,
    { org_id, agent_id },
    {
      ...{ provider: 'openai', model_pattern: '*', interval: 'month', constraint_type: 'cost' },
      ...{ max_value: 0.000_1, enforcement_mode: 'reject' },
    },
  );
  const owners = [
    ['key', key_id, 'refuse'],
    ['user', user_id, 'ticket'],
    ['team', team_id, 'refuse'],
    ['organization', org_id, 'ticket'],
  ] as const;
  for (const [owner_type, owner_id, on_exceed] of owners)
    await makeBudget(db, org, 100, { owner_type, owner_id, on_exceed });
  const limits = { session_id: 'session', session_limits: { max_cost_usd: 0.000_1 } };
  const caller: Partial<calls.Reserve> = { key_id, user_id, team_id, agent_id, ...limits };
  const hold = await lanes.reserve(reserveBody(org_id, 100, caller));
  expect(hold.code).toBeNull();
  await lanes.settle(settleBody(org_id, hold.reservation_id, 105));
  expect(await balance(db, org.org_wallet)).toMatchObject({ balance_nanos: -5n * TOKEN });
  return { ...org, caller };
}

const setFactor = (id: string, price_factor: number) =>
  many(db, 'update organizations set price_factor = :price_factor where id = :id', {
    ...{ id, price_factor },
  });

const ways: [string, (org_id: string) => Promise<unknown>, Partial<calls.Reserve>][] = [
  ['an organization that pays nothing', (org_id) => setFactor(org_id, 0), {}],
  ['a free model', async () => undefined, { model: 'gratis' }],
  [
    'an own key with the factor 0',
    (org_id) => makeOwnKey(db, org_id, { price_factor: 0 }),
    { own_keys: true },
  ],
];

test.each(ways)('a call of %s is held for in debt, and beyond every limit', async (...given) => {
  const [, arrange, asked] = given;
  const { org_id, org_wallet, user_id, team_id, caller } = await makeDebtor();
  expect((await lanes.reserve(reserveBody(org_id, 1, caller))).code).not.toBeNull();
  await arrange(org_id);
  const callers = [caller, {}, { user_id }, { team_id }, { user_id, team_id }];
  const holds = await Promise.all(
    callers.map((by) => lanes.reserve(reserveBody(org_id, 1_000, { ...by, ...asked }))),
  );
  for (const hold of holds) {
    expect(hold).toMatchObject({ code: null, reserved_amount_nanos: 0n });
    const by = { usage: usage({ prompt_tokens: 2_000, completion_tokens: 9 }) };
    const key = asked.own_keys ? hold.own_keys?.[0]?.provider_key_id : undefined;
    const settled = await lanes.settle(
      settleBody(org_id, hold.reservation_id, 0, { ...by, provider_key_id: key }),
    );
    expect(settled).toMatchObject({ code: null, actual_cost_nanos: 0n });
  }
  expect(await balance(db, org_wallet)).toEqual({
    ...{ balance_nanos: -5n * TOKEN, reserved_nanos: 0n },
  });
});

test.each<[string, Record<string, unknown>, Partial<calls.Reserve>]>([
  ['by the list', { provider: 'other' }, {}],
  ['by an own key that the platform’s may follow', { price_factor: 0, own_keys: 'first' }, {}],
  ['by a fee, which no own key changes', { price_factor: 0 }, { model: 'fee' }],
  ['by a fallback', { price_factor: 0 }, { fallbacks: [{ provider: 'openai', model: 'fee' }] }],
  [
    'by a fallback that no own key serves',
    { price_factor: 0 },
    { fallbacks: [{ provider: 'acme', model: 'tools' }] },
  ],
  ['by the fee of a region', { price_factor: 0 }, { model: 'regional' }],
])('a call that may cost something %s is refused in debt', async (_, own, asked) => {
  const { org_id } = await makeDebtor();
  await makeOwnKey(db, org_id, own);
  const body = reserveBody(org_id, 0, { own_keys: true, ...asked });
  expect((await lanes.reserve(body)).code).toBe('insufficient_balance');
});
