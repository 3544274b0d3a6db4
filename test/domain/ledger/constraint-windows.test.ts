import { randomUUID } from 'node:crypto';
import type { Batches } from '../../../api/ledger/batches';
import { audit } from '../../../domain/ledger/audit';
import * as constraints from '../../../domain/ledger/constraints';
import { type Db, one } from '../../../domain/sql';
import { credit, makeOrg, openLedger, reserveBody, settleBody, TOKEN } from '../../support/ledger';

let db: Db;
let lanes: Batches;
let close: () => Promise<void>;

beforeAll(async () => {
  ({ db, lanes, close } = await openLedger());
});

afterAll(() => close());

test.each([
  ['hour', '2027-03-28T01:59:59.999Z', '2027-03-28T01:00:00Z', '2027-03-28T02:00:00Z'],
  ['day', '2027-03-28T23:59:59.999Z', '2027-03-28T00:00:00Z', '2027-03-29T00:00:00Z'],
  ['week', '2027-01-03T23:59:59.999Z', '2026-12-28T00:00:00Z', '2027-01-04T00:00:00Z'],
  ['week', '2027-01-04T00:00:00Z', '2027-01-04T00:00:00Z', '2027-01-11T00:00:00Z'],
  ['month', '2028-02-29T12:00:00Z', '2028-02-01T00:00:00Z', '2028-03-01T00:00:00Z'],
])(
  'a %s window around %s starts and ends at its UTC instant in any time zone',
  async (interval, at, start, end) => {
    for (const zone of ['UTC', 'Pacific/Auckland', 'America/St_Johns']) {
      const row = await db.transaction(async (trx) => {
        await trx.raw(`set local timezone = '${zone}'`);
        return one<{ start: Date; end: Date }>(
          trx,
          `select window_start(:interval, :at) as start, window_end(:interval, :at) as "end"`,
          { interval, at: new Date(at) },
        );
      });
      expect([row.start, row.end]).toEqual([new Date(start), new Date(end)]);
    }
  },
);

/** An agent in a full wallet with one cap, and what its cap has counted. */
async function capped(cap: object) {
  const { org_id, org_wallet } = await makeOrg(db);
  await credit(db, org_id, org_wallet, 1_000_000n * TOKEN);
  const [{ id: agent_id }] = await db('agents').insert({ org_id, name: 'Bot' }).returning('id');
  const common = { provider: 'openai', model_pattern: 'gpt*', interval: 'month' } as const;
  const given = { ...common, enforcement_mode: 'reject', ...cap } as never;
  const { id } = await constraints.create(db, { org_id, agent_id }, given);
  const bodyOf = (request_id: string, more: object = {}) =>
    reserveBody(org_id, 100, { agent_id, request_id, ...more });
  const increment = (request_id: string) =>
    one<{ counted: boolean }>(
      db,
      `select increment_usage(:org_id, :agent_id, 'openai', :model, :cost, 1, :request_id) as counted`,
      { org_id, agent_id, model: bodyOf('').model, cost: 100n * TOKEN, request_id },
    );
  const counted = async () => {
    const u = await one<{ cost: string; responses: bigint }>(
      db,
      'select cost_nanos::text as cost, responses from constraint_usage where constraint_id = :id',
      { id },
    );
    return [Number(u.responses), BigInt(u.cost) / TOKEN];
  };
  return { org_id, agent_id, bodyOf, increment, counted };
}

const caps: [string, object][] = [
  ['responses', { constraint_type: 'responses', max_value: 2 }],
  ['cost', { constraint_type: 'cost', max_value: 0.0002 }],
];

test.each(caps)(
  'use that is told before its reserve counts once in a cap on %s, whatever becomes of the hold',
  async (_, cap) => {
    const { org_id, bodyOf, increment, counted } = await capped(cap);
    for (const more of [{}, { fallbacks: [{ provider: 'openai', model: bodyOf('').model }] }]) {
      const id = randomUUID();
      expect(await increment(id)).toEqual({ counted: true });
      const held = await lanes.reserve(bodyOf(id, more));
      expect(held).toMatchObject({ code: null });
      expect(await increment(id)).toEqual({ counted: false });
      await lanes.settle(settleBody(org_id, String(held.reservation_id), 100));
    }
    expect(await counted()).toEqual([2, 200n]);
    expect((await lanes.reserve(bodyOf(randomUUID()))).code).toBe('usage_constraint_exceeded');
    expect((await audit(db)).broken).toEqual([]);
  },
);

test.each(caps)(
  'a cap on %s that is full of what a request has told of itself lets that request alone pass',
  async (_, cap) => {
    const { bodyOf, increment, counted } = await capped(cap);
    const ids = [randomUUID(), randomUUID()];
    for (const id of ids) await increment(id);
    expect(await counted()).toEqual([2, 200n]);
    expect((await lanes.reserve(bodyOf(randomUUID()))).code).toBe('usage_constraint_exceeded');
    for (const id of ids) expect(await lanes.reserve(bodyOf(id))).toMatchObject({ code: null });
    expect(await counted()).toEqual([2, 200n]);
    expect((await audit(db)).broken).toEqual([]);
  },
);

test('use of an agent whose request another one reserves counts once, at that one', async () => {
  const { org_id, bodyOf, increment, counted } = await capped(caps[0]?.[1] ?? {});
  const id = randomUUID();
  await increment(id);
  const [other] = await db('agents').insert({ org_id, name: 'Other' }).returning('id');
  expect(await lanes.reserve(bodyOf(id, { agent_id: other.id }))).toMatchObject({ code: null });
  expect(await counted()).toEqual([0, 0n]);
  expect(await increment(id)).toEqual({ counted: false });
});
