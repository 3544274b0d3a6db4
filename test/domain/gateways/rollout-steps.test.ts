import { randomUUID } from 'node:crypto';
import { readAssignments, versionFor } from '../../../domain/gateways/assignments';
import * as configs from '../../../domain/gateways/configs';
import type { Counts } from '../../../domain/gateways/fleet';
import { no_counts } from '../../../domain/gateways/gates';
import { act, create, supersede } from '../../../domain/gateways/rollout-changes';
import { step } from '../../../domain/gateways/rollout-steps';
import { get, movedBy, type Rollout } from '../../../domain/gateways/rollouts';
import { type Db, many } from '../../../domain/sql';
import { plainConfig, reportGateway, stagedVersion } from '../../api/gateways/making';
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
let finished = 0;

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

/** Takes up what was moved, soaks with good calls, and steps on. */
async function passStage(rollout: Rollout): Promise<void> {
  finished += 1_000;
  await report(() => ({ finished }));
  await step(db, rollout.id);
  await pass(rollout, 61);
  await report(() => ({ finished: finished + 500 }));
  await step(db, rollout.id);
}

test('stages move gateways in a stable order, and the end is what the group keeps', async () => {
  const rollout = await begin();
  await step(db, rollout.id);
  const [first] = await moved(rollout);
  expect(await moved(rollout)).toHaveLength(1);
  expect(await desired(first as string)).toBe(Number(rollout.version));
  await passStage(rollout);
  expect(await moved(rollout)).toHaveLength(2);
  await passStage(rollout);
  expect(new Set(await moved(rollout))).toEqual(new Set(gateways));
  await passStage(rollout);
  expect(await get(db, rollout.id)).toMatchObject({ status: 'completed' });
  // One that comes later runs it too.
  expect(await desired(randomUUID())).toBe(Number(rollout.version));
  const again = await begin();
  await step(db, again.id);
  expect(await moved(again)).toEqual([first]);
});

test('a step that is run again changes nothing', async () => {
  const rollout = await begin();
  const once = await step(db, rollout.id);
  const again = await step(db, rollout.id);
  expect(again.summary).toContain('Waits for host to report version');
  expect(again.waits_for).toBe(`Until host reports version ${rollout.version}`);
  expect(once.is_over || again.is_over).toBe(false);
  expect(await moved(rollout)).toHaveLength(1);
});

test('several that a stage waits for are counted', async () => {
  const rollout = await begin({ stages: ['100%'] });
  const { waits_for } = await step(db, rollout.id);
  expect(waits_for).toBe(`Until 5 gateways report version ${rollout.version}`);
});

test('a rollout without traffic says what it waits for, and when it pauses', async () => {
  const rollout = await begin({ max_wait_s: 300 });
  await step(db, rollout.id);
  await report(() => ({ finished: 0 }));
  await step(db, rollout.id);
  await pass(rollout, 61);
  await report(() => ({ finished: 3 }));
  const { status, summary } = await step(db, rollout.id);
  expect(status).toBe('running');
  expect(summary).toMatch(
    /too little traffic to be judged: the least busy has finished 3 of 100 calls\. Pauses in (29[0-9]|300) s as too_little_traffic/,
  );
  await pass(rollout, 301);
  await report(() => ({ finished: 3 }));
  await looked(rollout, 61);
  await step(db, rollout.id);
  expect(await get(db, rollout.id)).toMatchObject({
    status: 'paused',
    reason_code: 'too_little_traffic',
  });
});

test('equal stages merge: of two gateways 1 and 25 % are one stage', async () => {
  for (const id of gateways.splice(2)) await db('gateways').where({ id }).delete();
  const rollout = await begin();
  await step(db, rollout.id);
  await passStage(rollout);
  expect(await get(db, rollout.id)).toMatchObject({ stage: 3 });
  expect(await moved(rollout)).toHaveLength(2);
});

test('one that reports and does not take the version up in time ends it', async () => {
  const rollout = await begin();
  await step(db, rollout.id);
  await pass(rollout, 31);
  for (const id of gateways) await reportGateway(db, { id, group_name: group });
  await looked(rollout, 40);
  const { summary } = await step(db, rollout.id);
  expect(summary).toContain('did not take up version');
  expect(await get(db, rollout.id)).toMatchObject({ reason_code: 'not_applied' });
});

test('worse work than elsewhere ends it before the soak is over; a provider that fails all does not', async () => {
  const rollout = await begin();
  await step(db, rollout.id);
  await report(busy);
  await step(db, rollout.id);
  await report(() => ({ finished: 700, upstream_5xx: 150 }));
  await step(db, rollout.id);
  expect(await get(db, rollout.id)).toMatchObject({ status: 'running' });
  await report((is_moved) => ({ finished: 900, upstream_5xx: is_moved ? 300 : 160 }));
  await step(db, rollout.id);
  expect(await get(db, rollout.id)).toMatchObject({ reason_code: 'gate_failed' });
});

test('the last stage is compared with what the unmoved ones did last', async () => {
  const rollout = await begin({ stages: [1, '100%'] });
  await step(db, rollout.id);
  await report(() => ({ finished: 500, own_5xx: 50 }));
  await step(db, rollout.id);
  await pass(rollout, 61);
  await report(() => ({ finished: 1_000, own_5xx: 100 }));
  await step(db, rollout.id);
  expect((await get(db, rollout.id)).control).toMatchObject({ gateways: 4, own_5xx: 400 });
  await report(() => ({ finished: 500, own_5xx: 55 }));
  await step(db, rollout.id);
  expect(await get(db, rollout.id)).toMatchObject({ status: 'running', stage: 2 });
  await report(() => ({ finished: 500, own_5xx: 70 }));
  await step(db, rollout.id);
  expect(await get(db, rollout.id)).toMatchObject({ status: 'rolled_back' });
});

test('if all that were moved have stopped, others take their place in the same stage', async () => {
  const rollout = await begin();
  await step(db, rollout.id);
  const [first] = (await moved(rollout)) as [string];
  await report(busy);
  await step(db, rollout.id);
  await db('gateways').where({ id: first }).delete();
  gateways = gateways.filter((id) => id !== first);
  await step(db, rollout.id);
  expect(await get(db, rollout.id)).toMatchObject({ stage: 1 });
  const [, second] = await moved(rollout);
  expect(gateways).toContain(second);
});

test('a group whose gateways have all gone pauses it', async () => {
  const rollout = await begin();
  await db('gateways').where({ group_name: group }).delete();
  await step(db, rollout.id);
  expect(await get(db, rollout.id)).toMatchObject({ status: 'paused', reason_code: 'no_gateways' });
});

test('a version for all supersedes it, also one that an API of the version before has put', async () => {
  const rollout = await begin();
  await step(db, rollout.id);
  const [first] = (await moved(rollout)) as [string];
  const config = JSON.stringify(plainConfig());
  const [row] = await db('gateway_configs').insert({ config, created_by: 'old' }).returning('*');
  expect(await desired(first)).toBe(Number(row.version));
  const { summary } = await step(db, rollout.id);
  expect(summary).toContain('Superseded: A version for all gateways took its place.');
  const next = await begin();
  const made = { config: plainConfig(), config_hash: null, note: null, by: 'test' };
  await db.transaction(async (trx) => {
    await configs.lockConfigs(trx);
    await configs.put(trx, made);
    await supersede(trx, null, 'A newer one.');
  });
  expect(await get(db, next.id)).toMatchObject({ status: 'superseded', reason: 'A newer one.' });
});

/** An API of 1.4 puts a configuration for all as the next step has looked for one. */
async function putAsItSteps(): Promise<() => Promise<void>> {
  await db.raw(`
    create function put_meanwhile() returns trigger language plpgsql as
      'begin insert into gateway_configs (config, created_by) values (''{}'', ''old''); return new; end';
    create trigger put_meanwhile after update of stepped_at on config_rollouts for each row execute function put_meanwhile()`);
  return () => db.raw('drop trigger put_meanwhile on config_rollouts; drop function put_meanwhile');
}

test('a version for all that is put as a rollout completes is what its group runs', async () => {
  const rollout = await begin({ stages: ['100%'], soak_s: 0 });
  await step(db, rollout.id);
  await report(busy);
  const undo = await putAsItSteps();
  const { status } = await step(db, rollout.id);
  await undo();
  const [{ version }] = await db('gateway_configs')
    .where({ created_by: 'old' })
    .orderBy('version', 'desc');
  expect(status).toBe('completed');
  expect(Number(version)).toBeGreaterThan(Number(rollout.version));
  for (const id of [...gateways, randomUUID()]) expect(await desired(id)).toBe(Number(version));
});

test('a completed rollout outlasts versions for others that were staged meanwhile', async () => {
  const rollout = await begin({ stages: ['100%'], soak_s: 0 });
  await step(db, rollout.id);
  await report(busy);
  await stagedVersion(db);
  expect(await step(db, rollout.id)).toMatchObject({ status: 'completed' });
  await stagedVersion(db);
  for (const id of [...gateways, randomUUID()])
    expect(await desired(id)).toBe(Number(rollout.version));
});

test('two that are started at one time leave one that goes on', async () => {
  const started = await Promise.all([begin(), begin(), begin()]);
  const statuses = await Promise.all(started.map(async ({ id }) => (await get(db, id)).status));
  expect(statuses.sort()).toEqual(['running', 'superseded', 'superseded']);
});

test('an abort and a step at one time end in one state, and nothing is moved after it', async () => {
  const rollout = await begin();
  await step(db, rollout.id);
  await report(busy);
  await Promise.all([
    step(db, rollout.id),
    db.transaction((trx) => act(trx, rollout.id, 'abort')),
    step(db, rollout.id),
  ]);
  expect(await get(db, rollout.id)).toMatchObject({ status: 'aborted' });
  const count = (await moved(rollout)).length;
  const result = await step(db, rollout.id);
  expect(result).toMatchObject({ is_over: true, status: 'aborted' });
  expect(await moved(rollout)).toHaveLength(count);
  for (const id of gateways) expect(await desired(id)).not.toBe(Number(rollout.version));
});
