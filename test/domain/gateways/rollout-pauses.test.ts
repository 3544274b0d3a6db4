import { randomUUID } from 'node:crypto';
import type { Counts } from '../../../domain/gateways/fleet';
import { no_counts } from '../../../domain/gateways/gates';
import { act, create } from '../../../domain/gateways/rollout-changes';
import { step } from '../../../domain/gateways/rollout-steps';
import { adoptOrphans, get, movedBy, type Rollout } from '../../../domain/gateways/rollouts';
import { type Db, many } from '../../../domain/sql';
import { reportGateway, stagedVersion } from '../../api/gateways/making';
import { openTestDatabase } from '../../support/database';

let db: Db;
let close: () => Promise<void>;
let group: string;
let gateways: string[];
let rollout: Rollout;
let first: string;

beforeAll(async () => {
  ({ db, close } = await openTestDatabase());
});
afterAll(() => close());

// Each test begins with one of three gateways moved.
beforeEach(async () => {
  group = `group-${randomUUID()}`;
  gateways = [];
  for (let n = 0; n < 3; n += 1) gateways.push(await reportGateway(db, { group_name: group }));
  const version = await stagedVersion(db);
  const rules = { max_wait_s: 600, apply_s: 30, max_error_ratio: 0.02, note: null, by: 'test' };
  const given = { version, group, ...rules, stages: [1, '100%'], soak_s: 60 };
  rollout = await db.transaction((trx) => create(trx, given));
  await step(db, rollout.id);
  const [moved] = await movedBy(db, rollout.id);
  first = moved?.gateway_id as string;
});

const now = () => get(db, rollout.id);
const does = (action: 'pause' | 'resume' | 'promote') =>
  db.transaction((trx) => act(trx, rollout.id, action));

/** All gateways report, the moved one its version. */
async function report(
  moved: Partial<Counts>,
  others: Partial<Counts> = { finished: moved.finished ?? 0 },
): Promise<void> {
  for (const id of gateways)
    await reportGateway(db, {
      id,
      group_name: group,
      config_version: id === first ? rollout.version : null,
      counts: { ...no_counts, ...(id === first ? moved : others) },
    });
}

test('what was moved and does worse returns also while it is paused', async () => {
  await report({ finished: 0 });
  await does('pause');
  await report({ finished: 200 });
  expect(await step(db, rollout.id)).toMatchObject({ status: 'paused', wait_ms: 5_000 });
  expect((await now()).applied_at).not.toBeNull();
  await report({ finished: 400, own_5xx: 100 });
  const { is_over } = await step(db, rollout.id);
  expect(is_over).toBe(true);
  expect(await now()).toMatchObject({ status: 'rolled_back', reason_code: 'gate_failed' });
});

test('a pause moves nobody, however long and well the moved work', async () => {
  await report({ finished: 0 });
  await step(db, rollout.id);
  await does('pause');
  await many(
    db,
    `update config_rollouts set applied_at = applied_at - interval '1 hour' where id = :id`,
    { id: rollout.id },
  );
  await report({ finished: 1_000 });
  await step(db, rollout.id);
  expect(await now()).toMatchObject({ status: 'paused', stage: 1 });
  expect(await movedBy(db, rollout.id)).toHaveLength(1);
});

test('a moved gateway that rejects the version returns also while it is paused', async () => {
  await report({});
  await does('pause');
  const rejects = { refused_version: rollout.version, error: 'no such variable' };
  await reportGateway(db, { id: first, group_name: group, ...rejects });
  await step(db, rollout.id);
  expect(await now()).toMatchObject({ status: 'rolled_back', reason_code: 'gateway_rejected' });
});

test('while nobody reports a pause judges nothing', async () => {
  await report({ finished: 0 });
  await does('pause');
  await report({ finished: 400, own_5xx: 100 });
  await many(
    db,
    `update gateways set seen_at = seen_at - interval '15 seconds' where group_name = :group`,
    { group },
  );
  expect(await step(db, rollout.id)).toMatchObject({ status: 'paused', is_over: false });
});

test('resume begins the soak anew: what either side did before is judged no more', async () => {
  await report({ finished: 0 });
  await step(db, rollout.id);
  // So far worse than the bound, but as bad as elsewhere.
  await report({ finished: 1_000, own_5xx: 500 }, { finished: 1_000, own_5xx: 500 });
  await does('pause');
  await step(db, rollout.id);
  await does('resume');
  expect((await now()).control).toMatchObject({ gateways: 2, finished: 2_000, own_5xx: 1_000 });
  await many(
    db,
    `update config_rollouts set applied_at = applied_at - interval '61 seconds' where id = :id`,
    { id: rollout.id },
  );
  // The calls of before do not count for the hundred that are needed.
  await report({ finished: 1_050, own_5xx: 500 });
  await step(db, rollout.id);
  expect(await now()).toMatchObject({ status: 'running', stage: 1 });
  // Now it alone fails, and what failed elsewhere is no excuse any more.
  await report({ finished: 1_200, own_5xx: 520 }, { finished: 1_200, own_5xx: 500 });
  await step(db, rollout.id);
  expect(await now()).toMatchObject({ status: 'rolled_back', reason_code: 'gate_failed' });
});

test('a paused one that nobody steps on is given its workflow again, once a minute', async () => {
  await report({});
  await does('pause');
  await many(db, 'delete from outbox where workflow_id = :id', { id: rollout.id });
  expect(await adoptOrphans(db, 100)).toBe(0);
  await many(
    db,
    `update config_rollouts set created_at = created_at - interval '2 minutes', stepped_at = stepped_at - interval '2 minutes'
     where id = :id`,
    { id: rollout.id },
  );
  expect(await adoptOrphans(db, 100)).toBe(1);
  expect(await adoptOrphans(db, 100)).toBe(0);
  const sent = await many(db, 'select o.signal from outbox o where o.workflow_id = :id', {
    id: rollout.id,
  });
  expect(sent).toEqual([{ signal: 'wake' }]);
});

test('a promotion moves all at once, also past one that has not taken the version up', async () => {
  for (const id of gateways) await reportGateway(db, { id, group_name: group });
  await does('promote');
  await step(db, rollout.id);
  expect(await movedBy(db, rollout.id)).toHaveLength(gateways.length);
  expect(await now()).toMatchObject({ status: 'running', stage: 2, applied_at: null });
  for (const id of gateways)
    await reportGateway(db, { id, group_name: group, config_version: rollout.version });
  await step(db, rollout.id);
  expect(await now()).toMatchObject({ status: 'completed' });
});
