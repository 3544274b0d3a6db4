import { randomUUID } from 'node:crypto';
import type { Counts } from '../../../domain/gateways/fleet';
import { no_counts } from '../../../domain/gateways/gates';
import { create } from '../../../domain/gateways/rollout-changes';
import { step } from '../../../domain/gateways/rollout-steps';
import { get, movedBy, type Rollout } from '../../../domain/gateways/rollouts';
import { type Db, many } from '../../../domain/sql';
import { reportGateway, stagedVersion } from '../../api/gateways/making';
import { openTestDatabase } from '../../support/database';

// With whom the gateways that were moved are compared.

let db: Db;
let close: () => Promise<void>;
let group: string;

beforeAll(async () => {
  ({ db, close } = await openTestDatabase());
});
afterAll(() => close());
beforeEach(() => {
  group = `group-${randomUUID()}`;
});

async function gateways(count: number): Promise<string[]> {
  const ids = [];
  for (let n = 0; n < count; n += 1) ids.push(await reportGateway(db, { group_name: group }));
  return ids;
}

async function begin(stages: (number | string)[]): Promise<Rollout> {
  const version = await stagedVersion(db);
  const rules = { max_wait_s: 600, apply_s: 30, max_error_ratio: 0.02, note: null, by: 'test' };
  const given = { version, group, ...rules, stages, soak_s: 60 };
  return db.transaction((trx) => create(trx, given));
}

const moved = async ({ id }: Rollout) =>
  (await movedBy(db, id)).map(({ gateway_id }) => gateway_id);

interface Done extends Partial<Counts> {
  is_draining?: boolean;
}

/** A gateway reports that it runs a version, and what its calls came to. */
async function did(id: string, version: bigint | null, { is_draining, ...counts }: Done = {}) {
  const config_version = version;
  const more = { is_draining: is_draining ?? false, counts: { ...no_counts, ...counts } };
  await reportGateway(db, { id, group_name: group, config_version, ...more });
}

/** The soak of a stage is over. */
async function soaked({ id }: Rollout): Promise<void> {
  await many(
    db,
    `update config_rollouts set applied_at = applied_at - interval '61 seconds' where id = :id`,
    { id },
  );
}

test.each([
  ['that it moved', true],
  ['that it did not move', false],
])('a gateway %s and that drains is not one of those that are compared with', async (_, is_own) => {
  const ids = await gateways(4);
  const rollout = await begin([2, '100%']);
  await step(db, rollout.id);
  const [leaving = '', staying = ''] = await moved(rollout);
  const others = ids.filter((id) => id !== leaving && id !== staying);
  for (const id of [leaving, staying]) await did(id, rollout.version);
  await step(db, rollout.id);
  const bad = { finished: 500, own_5xx: 40 };
  const ending = is_own ? leaving : (others[0] as string);
  for (const id of [leaving, staying]) if (id !== ending) await did(id, rollout.version, bad);
  for (const id of others) if (id !== ending) await did(id, null, { finished: 500 });
  const last = { finished: 500, own_5xx: 200, is_draining: true };
  await did(ending, is_own ? rollout.version : null, last);
  await step(db, rollout.id);
  expect(await get(db, rollout.id)).toMatchObject({
    status: 'rolled_back',
    reason_code: 'gate_failed',
    reason: expect.stringContaining('(8.0 %), against 0.0 % elsewhere'),
  });
});

/** All of `ids` are moved after a stage with one, in which the others failed 5 % of their calls. */
async function movedAll(ids: readonly string[], stages: (number | string)[]): Promise<Rollout> {
  const rollout = await begin(stages);
  await step(db, rollout.id);
  const [first = ''] = await moved(rollout);
  const others = ids.filter((id) => id !== first);
  await did(first, rollout.version);
  await step(db, rollout.id);
  await did(first, rollout.version, { finished: 1_000, upstream_5xx: 50 });
  for (const id of others) await did(id, null, { finished: 1_000, upstream_5xx: 50 });
  await soaked(rollout);
  await step(db, rollout.id);
  expect(new Set(await moved(rollout))).toEqual(new Set(ids));
  for (const id of others) await did(id, rollout.version);
  await step(db, rollout.id);
  return rollout;
}

test.each([
  ['the last stage', [1, '100%']],
  ['a stage that moves all before the last one', [1, 3, '100%']],
])('in %s a few calls of a gateway that starts are no measure', async (_, stages) => {
  const ids = await gateways(3);
  const rollout = await movedAll(ids, stages);
  const young = await reportGateway(db, { group_name: group });
  // A good version is as before, and is not held against one call that went well.
  await did(young, null, { finished: 1 });
  for (const id of ids) await did(id, rollout.version, { finished: 1_500, upstream_5xx: 75 });
  await step(db, rollout.id);
  expect(await get(db, rollout.id)).toMatchObject({ status: 'running' });
  // A bad one is not excused by 99 calls that went wrong.
  await did(young, null, { finished: 99, upstream_5xx: 99 });
  for (const id of ids) await did(id, rollout.version, { finished: 2_000, upstream_5xx: 200 });
  await step(db, rollout.id);
  expect(await get(db, rollout.id)).toMatchObject({
    status: 'rolled_back',
    reason: expect.stringContaining('against 5.0 % elsewhere'),
  });
});

test('in the last stage a gateway that starts is a measure once it has finished 100 calls', async () => {
  const ids = await gateways(3);
  const rollout = await movedAll(ids, [1, '100%']);
  const young = await reportGateway(db, { group_name: group });
  await did(young, null, { finished: 100, upstream_5xx: 50 });
  for (const id of ids) await did(id, rollout.version, { finished: 2_000, upstream_5xx: 800 });
  await step(db, rollout.id);
  expect(await get(db, rollout.id)).toMatchObject({ status: 'running' });
});

test('in an earlier stage the few calls that the others make are the measure', async () => {
  const ids = await gateways(3);
  const rollout = await begin([1, '100%']);
  await step(db, rollout.id);
  const [first = ''] = await moved(rollout);
  await did(first, rollout.version);
  await step(db, rollout.id);
  // The provider fails all of them.
  for (const id of ids) {
    const version = id === first ? rollout.version : null;
    await did(id, version, { finished: 20, upstream_5xx: 20 });
  }
  await step(db, rollout.id);
  expect(await get(db, rollout.id)).toMatchObject({ status: 'running' });
});
