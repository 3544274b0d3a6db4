import { type Db, many } from '../../domain/sql';
import { current } from '../compat/releases';
import { type CompatWorld, callerOf, openCompatWorld, type Part } from '../compat/world';
import { until } from '../support/until';

// A rollout over processes, of which the API and worker_config are killed in the middle of a stage:
// what the database had been told stands or is undone, and the next worker goes on from there.

const GATEWAYS = 3;
/** One, then two, then all: soon one after the other. */
const rules = { group: 'default', stages: [1, 2, '100%'], soak_s: 0, apply_s: 600 };

let world: CompatWorld;
let api: Part;
let worker: Awaited<ReturnType<CompatWorld['openWorker']>>;
let gateways: Part[];
let platform: string;

beforeAll(async () => {
  world = await openCompatWorld();
  api = await world.openApi(current);
  platform = world.bootstrap(current);
  const made = await callerOf(api)('post', '/v1/tokens', {
    key: platform,
    body: { name: 'gateways', token_type: 'access', scopes: ['control_plane'] },
  });
  const { key } = made.body;
  const opened = Array.from({ length: GATEWAYS }, () =>
    world.openGateway(current, { apis: [api], key }),
  );
  await Promise.all([...opened, world.openWorker(current)]);
  gateways = await Promise.all(opened);
  worker = await world.openWorker(current, 'config');
  await many(world.db, stalling);
  await until(async () => (await fleet()).length === GATEWAYS);
});

afterAll(() => world?.close());

const GATE = 4712;

/** The commit of a step that is named in `rollout_stalls` waits until the test opens the gate. */
const stalling = `
  create table rollout_stalls (step text);
  create function stall_rollout() returns trigger language plpgsql set lock_timeout = 0 as $$
  begin
    if exists (select from rollout_stalls s
        where s.step = case when new.status = 'running' then 'stage ' || new.stage else new.status end) then
      perform pg_advisory_xact_lock_shared(${GATE});
    end if;
    return null;
  end $$;
  create constraint trigger stall_rollout after update on config_rollouts deferrable initially deferred
    for each row execute function stall_rollout()`;

const stalled = `l.locktype = 'advisory' and l.objid = ${GATE} and not l.granted
  and l.database = (select d.oid from pg_database d where d.datname = current_database())`;

async function isStalled(): Promise<boolean> {
  return (await many(world.db, `select 1 from pg_locks l where ${stalled}`)).length > 0;
}

/** Lets the commits of a step wait; what it returns lets them go on. */
async function closeGate(db: Db, step: string): Promise<() => Promise<void>> {
  const gate = await db.transaction();
  await many(gate, 'set local idle_in_transaction_session_timeout = 0');
  await many(gate, `select pg_advisory_xact_lock(${GATE})`);
  await many(db, 'insert into rollout_stalls values (:step)', { step });
  return async () => {
    await many(db, 'delete from rollout_stalls');
    await gate.rollback();
  };
}

// biome-ignore lint/suspicious/noExplicitAny: the answers of routes, as the tests read them.
type Body = any;

async function call(method: 'get' | 'post' | 'put', at: string, body?: object): Promise<Body> {
  const answer = await callerOf(api)(method, at, { key: platform, ...(body && { body }) });
  expect([at, answer.status, answer.body]).toEqual([at, 200, expect.anything()]);
  return answer.body;
}

const fleet = async (): Promise<Body[]> => (await call('get', '/v1/admin/gateways')).gateways;

/** Puts a configuration to be rolled out; the rollout's id and the version. */
async function rollOut(more: object): Promise<{ id: string; version: number }> {
  const config = { ...world.settings, ...more };
  const put = await call('put', '/v1/admin/gateway-config', { config, rollout: rules });
  return { id: put.rollout.id, version: put.version };
}

const rollout = (id: string) => call('get', `/v1/admin/config-rollouts/${id}`);

/** How a rollout ended, but for its names and times. */
async function outcome({ id, version }: { id: string; version: number }) {
  await until(async () => (await rollout(id)).ended_at !== null);
  const handle = world.client.workflow.getHandle(id);
  const summary = String(await handle.result()).replaceAll(`version ${version}`, 'version N');
  await until(async () => (await fleet()).every(({ drift }) => drift === 'in_sync'));
  const { status, stage, stages, reason_code, gateways: moved } = await rollout(id);
  const rows = await many<{ type: string; stage: number | null }>(
    world.db,
    `select e.type, (e.payload ->> 'stage')::int as stage from events e
     where e.org_id = 'platform' and e.payload ->> 'rollout_id' = :id order by e.id`,
    { id },
  );
  return {
    ...{ status, stage, stages, reason_code, events: rows },
    summary: summary.replace(/^Version \d+/, 'Version N'),
    moved: moved.map((one: Body) => [one.gateway_id, one.stage]),
    running: (await fleet()).map((one) => [one.id, one.config_version === version]),
    taken_up: gateways.map(({ lines }) => lines.filter(isOf(version)).length),
  };
}

/** A gateway's line as it takes up a version. */
const isOf = (version: number) => (line: string) =>
  line.includes("the control plane's configuration runs") &&
  (JSON.parse(line) as { version: number }).version === version;

async function kill(part: { pid: number; ended: Promise<string> }): Promise<void> {
  process.kill(part.pid, 'SIGKILL');
  expect(await part.ended).toBe('ended by SIGKILL');
}

/** The API and worker_config die while a step is being committed; that stands, or is undone. */
async function killBoth(
  { is_kept }: { is_kept: boolean },
  openGate: () => Promise<void>,
): Promise<void> {
  await until(isStalled);
  await Promise.all([kill(worker), kill(api)]);
  if (!is_kept)
    await many(world.db, `select pg_terminate_backend(l.pid) from pg_locks l where ${stalled}`);
  await openGate();
  await until(async () => !(await isStalled()));
  [api, worker] = await Promise.all([
    world.openApi(current, api.port),
    world.openWorker(current, 'config'),
  ]);
}

test('an API and a worker_config that are killed in the middle of stages move no gateway twice, and tell each step once', async () => {
  const first = await rollOut({ body_limit_bytes: 2_048 });
  const undisturbed = await outcome(first);
  expect(undisturbed).toMatchObject({
    ...{ status: 'completed', stage: 3, taken_up: [1, 1, 1] },
    events: ['started', 'stage_began', 'stage_began', 'stage_began', 'completed'].map((type) => ({
      type: `config.rollout_${type}`,
    })),
  });
  expect(undisturbed.running.map(([, runs]) => runs)).toEqual([true, true, true]);

  const openFirst = await closeGate(world.db, 'stage 1');
  const second = await rollOut({ body_limit_bytes: 4_096 });
  await killBoth({ is_kept: true }, openFirst);
  const openSecond = await closeGate(world.db, 'stage 2');
  await killBoth({ is_kept: false }, openSecond);
  expect(await outcome(second)).toEqual(undisturbed);
});

test('a return that is recorded as both are killed is told once, and leaves all gateways where they were', async () => {
  const before = (await fleet()).map((one) => [one.id, one.config_version]);
  const bad = {
    providers: {
      targets: [
        {
          ...{ id: 'other', provider: 'openai', shape: 'openai', models: ['gpt-4o-mini'] },
          ...{ base_url: 'https://api.openai.com/v1', api_key_env: 'NOBODY_HAS_THIS' },
        },
      ],
    },
  };
  const openGate = await closeGate(world.db, 'rolled_back');
  const made = await rollOut(bad);
  await killBoth({ is_kept: true }, openGate);
  const ended = await outcome(made);
  expect(ended).toMatchObject({
    ...{ status: 'rolled_back', reason_code: 'gateway_rejected', taken_up: [0, 0, 0] },
    events: ['started', 'stage_began', 'rolled_back'].map((type) => ({
      type: `config.rollout_${type}`,
    })),
  });
  expect((await fleet()).map((one) => [one.id, one.config_version])).toEqual(before);
});
