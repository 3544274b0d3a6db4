import { randomUUID } from 'node:crypto';
import { readAssignments, versionFor } from '../../../domain/gateways/assignments';
import type { Counts } from '../../../domain/gateways/fleet';
import { no_counts } from '../../../domain/gateways/gates';
import { create } from '../../../domain/gateways/rollout-changes';
import { step } from '../../../domain/gateways/rollout-steps';
import { get, movedBy, type Rollout } from '../../../domain/gateways/rollouts';
import { type Db, many } from '../../../domain/sql';
import { reportGateway, stagedVersion } from '../../api/gateways/making';
import { openTestDatabase } from '../../support/database';

let db: Db;
let close: () => Promise<void>;
let group: string;
let gateways: string[];

beforeAll(async () => {
  ({ db, close } = await openTestDatabase());
});
afterAll(() => close());
beforeEach(async () => {
  group = `group-${randomUUID()}`;
  gateways = [];
  for (let n = 0; n < 5; n += 1) gateways.push(await reportGateway(db, { group_name: group }));
});

async function begin(more: object = {}): Promise<Rollout> {
  const version = await stagedVersion(db);
  const rules = { max_wait_s: 600, apply_s: 30, max_error_ratio: 0.02, note: null, by: 'test' };
  return db.transaction((trx) => create(trx, { version, group, ...rules, soak_s: 60, ...more }));
}

const moved = async ({ id }: Rollout) =>
  (await movedBy(db, id)).map(({ gateway_id }) => gateway_id);

/** What a gateway is to run. */
const desired = async (id: string) => versionFor(await readAssignments(db), { id, group });

/** Every gateway reports; those that are to run a version do. */
async function report(counts: (is_moved: boolean) => Partial<Counts>, silent: string[] = []) {
  for (const id of gateways) {
    if (silent.includes(id)) continue;
    const version = await desired(id);
    await reportGateway(db, {
      id,
      group_name: group,
      config_version: version === null ? null : BigInt(version),
      counts: { ...no_counts, ...counts(version !== null) },
    });
  }
}

const busy = () => ({ finished: 500 });

/** Moves all that a rollout has noted of times into the past. */
async function pass({ id }: Rollout, seconds: number): Promise<void> {
  const back = (column: string) => `${column} = ${column} - make_interval(secs => :seconds)`;
  await many(
    db,
    `update config_rollouts set ${['applied_at', 'stage_began_at', 'created_at', 'reports_since'].map(back).join(', ')} where id = :id`,
    { id, seconds },
  );
  await many(db, `update config_rollout_gateways set ${back('moved_at')} where rollout_id = :id`, {
    id,
    seconds,
  });
  await many(db, `update gateways set ${back('seen_at')} where group_name = :group`, {
    group,
    seconds,
  });
}

/** As if steps had looked, and found reports, for so long. */
async function looked({ id }: Rollout, seconds: number): Promise<void> {
  await many(
    db,
    `update config_rollouts set stepped_at = clock_timestamp(), reports_since = clock_timestamp() - make_interval(secs => :seconds)
     where id = :id`,
    { id, seconds },
  );
}

test('one that falls silent after it was moved ends it while the others report', async () => {
  const rollout = await begin();
  await step(db, rollout.id);
  const [first] = (await moved(rollout)) as [string];
  await report(busy);
  await step(db, rollout.id);
  await pass(rollout, 25);
  await report(busy, [first]);
  await looked(rollout, 30);
  await step(db, rollout.id);
  expect(await get(db, rollout.id)).toMatchObject({
    status: 'rolled_back',
    reason_code: 'gateway_silent',
    reason: expect.stringContaining(first),
  });
  expect(await desired(first)).toBeNull();
});

test('a minute without the control plane is nobody’s fault: it goes on when reports arrive', async () => {
  const rollout = await begin();
  await step(db, rollout.id);
  const [first] = (await moved(rollout)) as [string];
  await report(busy);
  await step(db, rollout.id);
  await looked(rollout, 30);
  await pass(rollout, 60);
  await step(db, rollout.id);
  expect(await get(db, rollout.id)).toMatchObject({ status: 'running' });
  // The others are first to report again; then it counts what it lost meanwhile.
  await report(busy, [first]);
  await step(db, rollout.id);
  expect(await get(db, rollout.id)).toMatchObject({ status: 'running' });
  const lost = { finished: 900, own_5xx: 300, lost_reports: 30 };
  await report((is_moved) => (is_moved ? lost : busy()));
  const { summary } = await step(db, rollout.id);
  expect(summary).toContain('Reports arrive again');
  await looked(rollout, 21);
  await pass(rollout, 30);
  await report((is_moved) => (is_moved ? lost : busy()));
  await step(db, rollout.id);
  // The soak began anew, and waits for its calls.
  expect(await get(db, rollout.id)).toMatchObject({ status: 'running', stage: 1 });
  await pass(rollout, 61);
  await looked(rollout, 91);
  await report(() => ({ ...lost, finished: 1_500 }));
  await step(db, rollout.id);
  expect(await get(db, rollout.id)).toMatchObject({ status: 'running', stage: 2 });
});

test('in its last stage, where nobody is left to compare with, such a minute returns nothing either', async () => {
  const rollout = await begin({ stages: ['100%'] });
  await step(db, rollout.id);
  await report(busy);
  await step(db, rollout.id);
  await looked(rollout, 30);
  await pass(rollout, 60);
  await step(db, rollout.id);
  for (const own_5xx of [300, 310]) {
    await report(() => ({ finished: 900, own_5xx, lost_reports: 30 }));
    await step(db, rollout.id);
    expect(await get(db, rollout.id)).toMatchObject({ status: 'running', stage: 1 });
  }
  await looked(rollout, 61);
  await pass(rollout, 61);
  await report(() => ({ finished: 1_500, own_5xx: 310, lost_reports: 30 }));
  await step(db, rollout.id);
  expect(await get(db, rollout.id)).toMatchObject({ status: 'completed' });
});

test('all silent for longer than it may wait returns what was moved', async () => {
  const rollout = await begin({ max_wait_s: 30 });
  await step(db, rollout.id);
  await report(busy);
  await step(db, rollout.id);
  await pass(rollout, 31);
  await step(db, rollout.id);
  expect(await get(db, rollout.id)).toMatchObject({ reason_code: 'no_reports' });
});
