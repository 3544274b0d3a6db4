import { randomUUID } from 'node:crypto';
import type { Batches } from '../../../api/ledger/batches';
import * as rules from '../../../domain/ledger/approval-rules';
import * as constraints from '../../../domain/ledger/constraints';
import { reserveAnswer } from '../../../domain/ledger/reservations';
import * as verdicts from '../../../domain/ledger/verdicts';
import { type Db, many } from '../../../domain/sql';
import {
  eventsOf,
  makeFundedOrg,
  makeOrg,
  makeOverdue,
  openLedger,
  reserveBody,
  TOKEN,
} from '../../support/ledger';
import { makeBudget, ownBody } from './making';

// A call that passes by an approval hears, tells and is refused what any other is.

let db: Db;
let lanes: Batches;
let close: () => Promise<void>;

beforeAll(async () => {
  ({ db, lanes, close } = await openLedger());
});

afterAll(() => close());

type Body = ReturnType<typeof reserveBody>;

async function approvedBy(body: Body): Promise<string> {
  const { cost_ticket } = await lanes.reserve(body);
  const ticket_id = String(cost_ticket?.id);
  await verdicts.decide(db, {
    id: randomUUID(),
    ticket_id,
    org_id: body.org_id,
    verdict: 'approved',
    by: 'user_1',
    is_platform: true,
    valid_until: await verdicts.verdictDeadline(db),
  });
  return ticket_id;
}

function redeem({ org_id, request_id, request_body_hash, user_id }: Body, ticket_id: string) {
  return lanes.redeem({ org_id, ticket_id, request_id, request_body_hash, user_id, wait_ms: 0 });
}

test('a budget tells of each threshold once, by the request that reached it', async () => {
  const org = await makeFundedOrg(db, 10_000);
  const { org_id } = org;
  await makeBudget(db, org, 100, { on_exceed: 'ticket' });
  const first = reserveBody(org_id, 54, ownBody());
  await lanes.reserve(first);
  const beyond = reserveBody(org_id, 70, ownBody());
  await approvedBy(beyond);
  const told = await eventsOf(db, org_id, 'budget.threshold');
  expect(told.map(({ threshold_pct, request_id }) => [threshold_pct, request_id])).toEqual([
    [50, first.request_id],
    [100, beyond.request_id],
    [80, beyond.request_id],
  ]);
});

test('an approved hold that nobody takes expires in the name of the request that asked', async () => {
  const { org_id } = await makeOrg(db);
  const body = reserveBody(org_id, 70, ownBody());
  await approvedBy(body);
  const [held] = await many<{ id: string }>(
    db,
    'select id from reservations where org_id = :org_id',
    { org_id },
  );
  await makeOverdue(db, String(held?.id));
  await many(db, 'select expire_holds(:org_id)', { org_id });
  expect(await eventsOf(db, org_id, 'reservation.expired')).toMatchObject([
    { request_id: body.request_id, unsettled: false },
  ]);
});

test('a call that a person or a rule approves is warned of its budget and of its caps', async () => {
  const org = await makeFundedOrg(db, 10_000);
  const { org_id } = org;
  const [agent] = await db('agents').insert({ org_id, name: 'Bot' }).returning('id');
  const agent_id = agent.id;
  const cap = async (constraint_type: 'cost' | 'responses', max_value: number) => {
    const made = await constraints.create(
      db,
      { org_id, agent_id },
      {
        ...{ constraint_type, max_value, provider: 'openai', model_pattern: '*' },
        ...{ interval: 'month', enforcement_mode: 'warn' },
      },
    );
    return made.id;
  };
  const cost = await cap('cost', 0.00005);
  const calls = await cap('responses', 2);
  const { id } = await makeBudget(db, org, 10, { on_exceed: 'ticket' });
  const ask = () => reserveBody(org_id, 70, { agent_id, ...ownBody() });
  const warned = (found: Awaited<ReturnType<typeof lanes.redeem>>) => {
    expect(found.code).toBeNull();
    return reserveAnswer(found).warnings.map((one) => [
      one.id,
      'threshold_pct' in one ? one.threshold_pct : undefined,
    ]);
  };
  const body = ask();
  const ticket_id = await approvedBy(body);
  expect(warned(await redeem(body, ticket_id))).toEqual([
    [cost, undefined],
    [id, 100],
  ]);
  await rules.create(db, {
    ...{ org_id, name: 'Small calls', team_id: null, source: 'organization', created_by: 'test' },
    ...{ max_per_call_nanos: 100n * TOKEN, max_per_day_nanos: 1_000n * TOKEN },
  });
  expect(warned(await lanes.reserve(ask()))).toEqual([
    [cost, undefined],
    [id, 100],
  ]);
  expect(warned(await lanes.reserve(ask()))).toEqual([
    [cost, undefined],
    [calls, undefined],
    [id, 100],
  ]);
});

test('what was approved is not held for a call whose team or agent is archived', async () => {
  const org = await makeOrg(db);
  const { org_id, user_id, team_id } = org;
  const [agent] = await db('agents').insert({ org_id, name: 'Bot' }).returning('id');
  const asked = [
    ['teams', 'team_id', { user_id, team_id }],
    ['teams', 'team_id', { team_id }],
    ['agents', 'agent_id', { user_id, agent_id: agent.id }],
  ] as const;
  for (const [table, param, who] of asked) {
    const body = reserveBody(org_id, 10, { ...who, ...ownBody() });
    const ticket_id = await approvedBy(body);
    const archive = (at: Date | null) => db(table).where({ org_id }).update({ archived_at: at });
    await archive(new Date());
    const refused = { code: 'not_of_organization', param };
    expect(await lanes.reserve(reserveBody(org_id, 10, { ...who }))).toMatchObject(refused);
    expect(await redeem(body, ticket_id)).toMatchObject(refused);
    await archive(null);
    expect(await redeem(body, ticket_id)).toMatchObject({ code: null });
  }
});
