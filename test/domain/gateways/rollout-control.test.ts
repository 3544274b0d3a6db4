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
