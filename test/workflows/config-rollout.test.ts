import { setTimeout as sleep } from 'node:timers/promises';
import { many } from '../../domain/sql';
import { serve } from '../support/api';
import { openWorld, type World } from '../support/gateway';
import { makeKey } from '../support/keys';
import { until } from '../support/until';
import { keepSending, openWorker, type TestWorker } from '../support/worker';
import { EXTRA_VARIABLE, type Fleet, openFlaky, openFleet, openLoad } from './fleet';

jest.setTimeout(900_000);

// A stage is a dozen steps of a workflow, and the machine may be busy.
const STAGE_MS = 60_000;
/** A moved gateway counts as silent after 20 s, while others are heard. */
const SILENT_MS = 20_000;
const AWAY_MS = 25_000;

let world: World;
let worker: TestWorker;
let admin: string;
let fleet: Fleet;
let flaky: Awaited<ReturnType<typeof openFlaky>>;
let stopSending: () => Promise<void>;

beforeAll(async () => {
  world = await openWorld();
  worker = await openWorker(world.api.db);
  await worker.runAlso('worker_config');
  admin = await makeKey(world.api.db, null, { scopes: ['platform:admin'] });
  stopSending = keepSending(worker);
  flaky = await openFlaky(world.models_url, 10);
  fleet = await openFleet(world, { count: 5, group: 'edge', lacking: [3] });
  await until(async () => (await gateways()).length === 5, STAGE_MS);
});
afterAll(async () => {
  await stopSending();
  await fleet.close();
  await worker.close();
  await flaky.close();
  await world.close();
});

// biome-ignore lint/suspicious/noExplicitAny: the answers of routes, as the tests read them.
type Body = any;

async function call(method: string, path: string, body?: object): Promise<Body> {
  const given = { key: admin, ...(body && { body }) };
  const answer = await world.api.call(method, path, given);
  expect({ path, status: answer.status, body: answer.body }).toMatchObject({
    status: path === '/v1/admin/config-rollouts' && method === 'post' ? 201 : 200,
  });
  return answer.body;
}

async function gateways(group = 'edge'): Promise<Body[]> {
  return (await call('get', `/v1/admin/gateways?group=${group}`)).gateways;
}

/** Which versions run, and how often each. */
async function versions(): Promise<Record<string, number>> {
  const counts: Record<string, number> = {};
  for (const { config_version } of await gateways())
    counts[config_version] = (counts[config_version] ?? 0) + 1;
  return counts;
}

/** Puts a configuration to be rolled out; the rollout's id and the version. */
async function rollOut(config: object, rollout: object = {}): Promise<Body> {
  const rules = { group: 'edge', soak_s: 1, apply_s: 600, ...rollout };
  const put = await call('put', '/v1/admin/gateway-config', { config, rollout: rules });
  return { ...put.rollout, version: put.version };
}

const rollout = (id: string) => call('get', `/v1/admin/config-rollouts/${id}`);

async function ended(id: string, timeout_ms = 3 * STAGE_MS): Promise<Body> {
  await until(async () => (await rollout(id)).ended_at !== null, timeout_ms);
  await until(async () => {
    const { status } = await worker.client.workflow.getHandle(id).describe();
    return status.name === 'COMPLETED';
  });
  return rollout(id);
}

async function detailsOf(id: string): Promise<string> {
  const handle = worker.client.workflow.getHandle(id);
  return String(await handle.result());
}

async function events(id: string): Promise<string[]> {
  const rows = await many<{ type: string }>(
    world.api.db,
    `select e.type from events e where e.org_id = 'platform' and e.payload ->> 'rollout_id' = :id order by e.id`,
    { id },
  );
  return rows.map(({ type }) => type.replace('config.rollout_', ''));
}

const urls = () => fleet.gateways.map(({ url }) => url);

test('a good configuration reaches all gateways stage by stage, and the group keeps it', async () => {
  const load = openLoad(world, urls);
  const made = await rollOut(fleet.configured({ body_limit_bytes: 2_048 }));
  await until(async () => (await rollout(made.id)).stage >= 1, STAGE_MS);
  const after_first = await rollout(made.id);
  expect(after_first.gateways).toHaveLength(1);
  const done = await ended(made.id);
  expect(done).toMatchObject({ status: 'completed', stage: 3, reason: null });
  // 1, then 25% of five gateways, which are two.
  expect(done.gateways.map(({ stage }: Body) => stage)).toEqual([1, 2, 3, 3, 3]);
  await until(async () => (await gateways()).every(({ drift }) => drift === 'in_sync'), STAGE_MS);
  expect(await versions()).toEqual({ [made.version]: 5 });
  await load.stop();
  expect(Object.keys(load.take())).toEqual(['200']);
  const told = await events(made.id);
  // The last stage begins once more for a gateway that a busy machine kept from reporting.
  const began = Array(Math.max(3, told.length - 2)).fill('stage_began');
  expect(told).toEqual(['started', ...began, 'completed']);
  expect(await detailsOf(made.id)).toBe(
    `Version ${made.version} to the group edge: stage 3 of 3, 5 gateways moved. Completed: all gateways of the group run version ${made.version}.`,
  );
});

test('one that answers 500 to one call in ten leaves the one gateway that it reached by itself', async () => {
  const before = await versions();
  const load = openLoad(world, urls);
  const target = { base_url: `${flaky.url}/v1`, api_key_env: undefined };
  const bad = await rollOut(fleet.configured({}, target), { soak_s: 30 });
  const done = await ended(bad.id);
  expect(done).toMatchObject({ status: 'rolled_back', reason_code: 'gate_failed', stage: 1 });
  expect(done.reason).toMatch(
    /ended in failures of providers \(\d+\.\d %\), against 0\.0 % elsewhere/,
  );
  expect(done.gateways).toHaveLength(1);
  await until(async () => (await versions())[bad.version] === undefined, STAGE_MS);
  const until_then = load.take();
  // Calls that began with it end with it.
  await load.reaches(100);
  await load.stop();
  const since = load.take();
  expect(Object.keys(since)).toContain('200');
  // Nobody's call fails because of the return: all that failed are the provider's.
  const failures = [until_then, since].flatMap((tally) =>
    Object.entries(tally).map(([status, count]) => (status === '200' ? 0 : count)),
  );
  const sum = failures.reduce((all, count) => all + count, 0);
  expect(sum).toBeGreaterThan(0);
  expect(sum).toBeLessThanOrEqual(flaky.failed());
  expect(await versions()).toEqual(before);
  expect(await detailsOf(bad.id)).toContain('All that were moved return to version');
});

test('a variable that one gateway lacks is a rejection of that gateway alone, and stops there', async () => {
  const before = await versions();
  const asking = fleet.configured({}, { api_key_env: EXTRA_VARIABLE });
  const made = await rollOut(asking, { stages: ['100%'], soak_s: 0 });
  const done = await ended(made.id);
  expect(done).toMatchObject({ status: 'rolled_back', reason_code: 'gateway_rejected' });
  expect(done.reason).toContain(`cannot use ${EXTRA_VARIABLE} here`);
  await until(async () => JSON.stringify(await versions()) === JSON.stringify(before), STAGE_MS);
  const rejected = await many<{ payload: { version: number } }>(
    world.api.db,
    `select e.payload from events e where e.type = 'gateway.config_rejected' and (e.payload ->> 'version')::int = :version`,
    { version: made.version },
  );
  expect(rejected).toHaveLength(1);
});

test('an abort in mid-stage returns what was moved at once', async () => {
  const before = await versions();
  const made = await rollOut(fleet.configured({ body_limit_bytes: 4_096 }), { soak_s: 300 });
  await until(async () => (await versions())[made.version] === 1, STAGE_MS);
  await call('post', `/v1/admin/config-rollouts/${made.id}/abort`);
  // Its soak would have been 300 s.
  await until(async () => (await versions())[made.version] === undefined, STAGE_MS);
  expect(await ended(made.id)).toMatchObject({ status: 'aborted' });
  expect(await versions()).toEqual(before);
});

test('one whose workflow was terminated in mid-stage is taken up again by the reconciler', async () => {
  const made = await rollOut(fleet.configured({ body_limit_bytes: 5_120 }), { soak_s: 300 });
  await until(async () => (await rollout(made.id)).applied_at !== null, STAGE_MS);
  await worker.client.workflow.getHandle(made.id).terminate('lost');
  const reconcile = async (n: number) => {
    const options = { taskQueue: 'lifecycle', workflowId: `reconcile-${made.id}-${n}` };
    return (await worker.client.workflow.execute('reconcile', options)) as { adopted: number };
  };
  // Its last step is too young to be missed.
  expect(await reconcile(1)).toMatchObject({ adopted: 0 });
  let tries = 1;
  await until(async () => {
    // A step that was under way as the workflow ended may still write down when it ended.
    await many(
      world.api.db,
      `update config_rollouts set stepped_at = stepped_at - interval '2 minutes', created_at = created_at - interval '2 minutes'
       where id = :id`,
      { id: made.id },
    );
    tries += 1;
    return (await reconcile(tries)).adopted === 1;
  });
  expect(await reconcile(tries + 1)).toMatchObject({ adopted: 0 });
  await until(async () => {
    const { status } = await worker.client.workflow.getHandle(made.id).describe();
    return status.name === 'RUNNING';
  }, STAGE_MS);
  await call('post', `/v1/admin/config-rollouts/${made.id}/promote`);
  expect(await ended(made.id)).toMatchObject({ status: 'completed' });
  await until(async () => (await versions())[made.version] === 5, STAGE_MS);
});

test('without traffic it pauses, and goes on, is promoted, or is superseded by a newer one', async () => {
  const quiet = await rollOut(fleet.configured({ body_limit_bytes: 8_192 }), { max_wait_s: 1 });
  await until(async () => (await rollout(quiet.id)).status === 'paused', STAGE_MS);
  expect(await rollout(quiet.id)).toMatchObject({ reason_code: 'too_little_traffic', stage: 1 });
  const newer = await rollOut(fleet.configured({ body_limit_bytes: 16_384 }), { max_wait_s: 600 });
  expect(await ended(quiet.id)).toMatchObject({ status: 'superseded' });
  await until(async () => (await rollout(newer.id)).applied_at !== null, STAGE_MS);
  await call('post', `/v1/admin/config-rollouts/${newer.id}/pause`);
  await call('post', `/v1/admin/config-rollouts/${newer.id}/resume`);
  await call('post', `/v1/admin/config-rollouts/${newer.id}/promote`);
  expect(await ended(newer.id)).toMatchObject({ status: 'completed', is_promoted: true });
  await until(async () => (await versions())[newer.version] === 5, STAGE_MS);
});

test('the way back to an older version takes no soak, and no call fails under load', async () => {
  const load = openLoad(world, urls);
  const { versions: made } = await call('get', '/v1/admin/gateway-config/versions');
  const [{ version: now }] = made;
  const oldest = made.at(-1).version;
  const wanted = { version: oldest, group: 'edge', apply_s: 600 };
  const back = await call('post', '/v1/admin/config-rollouts', wanted);
  expect(back).toMatchObject({ from_version: now, stages: ['100%'], soak_s: 0 });
  expect(await ended(back.id)).toMatchObject({ status: 'completed' });
  await until(async () => (await versions())[oldest] === 5, STAGE_MS);
  load.take();
  await load.reaches(100);
  await load.stop();
  expect(Object.keys(load.take())).toEqual(['200']);
});

test('an API that dies in mid-stage is made up for by another one; the rollout goes on', async () => {
  const dying = await serve({ db: world.api.db });
  const api_urls = [dying.url, world.api.url];
  const others = await openFleet(world, { count: 3, group: 'kill', api_urls });
  await until(async () => (await gateways('kill')).length === 3, STAGE_MS);
  const load = openLoad(world, () => others.gateways.map(({ url }) => url));
  const config = others.configured({ body_limit_bytes: 32_768 });
  const rules = { group: 'kill', stages: [1, '100%'], soak_s: 3 };
  const made = await rollOut(config, rules);
  await until(async () => (await rollout(made.id)).applied_at !== null, STAGE_MS);
  await dying.close();
  expect(await ended(made.id)).toMatchObject({ status: 'completed', stage: 2 });
  await until(
    async () => (await gateways('kill')).every(({ drift }) => drift === 'in_sync'),
    STAGE_MS,
  );
  await load.stop();
  expect(Object.keys(load.take())).toEqual(['200']);
  await others.close();
  expect(await gateways('kill')).toEqual([]);
});

test('a control plane that is away for longer than a gateway may be silent returns nothing', async () => {
  let api = await serve({ db: world.api.db });
  const others = await openFleet(world, { count: 3, group: 'away', api_urls: [api.url] });
  await until(async () => (await gateways('away')).length === 3, STAGE_MS);
  const config = others.configured({ body_limit_bytes: 65_536 });
  const made = await rollOut(config, { group: 'away', stages: [1, '100%'], soak_s: 300 });
  await until(async () => (await rollout(made.id)).applied_at !== null, STAGE_MS);
  await api.close();
  await sleep(AWAY_MS);
  expect(await rollout(made.id)).toMatchObject({ status: 'running', stage: 1 });
  api = await serve({ db: world.api.db }, undefined, Number(new URL(api.url).port));
  await until(
    async () => (await gateways('away')).every(({ drift }) => drift === 'in_sync'),
    STAGE_MS,
  );
  // They still report every two seconds, or each would look silent to the rollout.
  const seen = new Map((await gateways('away')).map(({ id, seen_at }) => [id, seen_at]));
  await until(
    async () => (await gateways('away')).every(({ id, seen_at }) => seen_at !== seen.get(id)),
    SILENT_MS,
  );
  await call('post', `/v1/admin/config-rollouts/${made.id}/promote`);
  expect(await ended(made.id)).toMatchObject({ status: 'completed', is_promoted: true });
  await until(
    async () => (await gateways('away')).every((one) => one.config_version === made.version),
    STAGE_MS,
  );
  await others.close();
  await api.close();
});
