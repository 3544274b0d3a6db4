import type { Process } from '../../sandbox/processes/processes';
import { type Document, narrowed } from '../api/openapi/narrower';
import { released } from '../api/openapi/released';
import { until } from '../support/until';
import { ask, openTickets, requireCalls, requireOneBill } from './calls';
import { checkOutPrevious, current, openApiOf, packagesOf, type Release } from './releases';
import {
  type CompatWorld,
  callerOf,
  openCompatWorld,
  type Part,
  type Seeded,
  seedOver,
} from './world';

// The processes of this version and of the one before, in each pair that an upgrade has.

let previous: ReturnType<typeof checkOutPrevious>;
let world: CompatWorld;
let seeded: Seeded;
// Both on the schema of this version.
let new_api: Part;
let old_api: Part;
let old_gateway: Part;

beforeAll(async () => {
  previous = checkOutPrevious();
  world = await openCompatWorld();
  new_api = await world.openApi(current);
  old_api = await world.openApi(previous);
  seeded = await seedOver(old_api, world.bootstrap(previous));
  old_gateway = await gatewayOf(previous, new_api);
});

afterAll(async () => {
  await world?.close();
  previous?.remove();
});

const gatewayOf = (release: Release, api: Part) =>
  world.openGateway(release, { apis: [api], key: seeded.control_plane });

const healthOf = async ({ url }: Part, at = '/health') =>
  (await (await fetch(`${url}${at}`)).json()) as { version: string };

test('the two sides are two versions, and what runs the one before has the packages that it names', async () => {
  const old_says = [await healthOf(old_api), await healthOf(old_gateway, '/svc/health')];
  expect(old_says.map(({ version }) => version)).toEqual([previous.version, previous.version]);
  expect((await healthOf(new_api)).version).toBe(current.version);
  expect(current.version).not.toBe(previous.version);
  expect(packagesOf(current)).toMatchObject(packagesOf(previous));
});

test('what the tests compare routes with is what the version before says of itself', () => {
  const said = openApiOf(previous) as Document;
  expect(narrowed(said, released())).toEqual([]);
  expect(narrowed(released(), said)).toEqual([]);
});

test('an API of the version before works on the schema of this one', async () => {
  const gateway = await gatewayOf(previous, old_api);
  await requireCalls(gateway, old_api, seeded);
  await gateway.stop();
});

test('a gateway of the version before works with this API', async () => {
  await requireCalls(old_gateway, new_api, seeded);
});

test('a gateway of an older version is answered 426 in words, and what it has under way is settled', async () => {
  const call = callerOf(new_api);
  const headers = { 'x-svc-gateway-version': '1.3.9' };
  const reserve = await call('post', '/v1/gateway/keys/verify', {
    key: seeded.control_plane,
    body: { key: seeded.rich.gateway },
    headers,
  });
  expect([reserve.status, reserve.body.error]).toEqual([
    426,
    expect.objectContaining({
      code: 'version_not_supported',
      message: 'API 1.5 works with gateways 1.4 and 1.5, not with 1.3.9.',
    }),
  ]);
  const settle = await call('post', '/v1/gateway/wallets/settle', {
    key: seeded.control_plane,
    body: {},
    headers,
  });
  expect(settle.status).not.toBe(426);
});

/** A ticket of the organization without money: its call is answered at once. */
async function openTicket(gateway: Part) {
  const refused = await ask(gateway, seeded.poor, { headers: { 'x-svc-hold-ms': '0' } });
  expect(refused.status).toBe(402);
  return JSON.parse(refused.text).error.cost_ticket.id as string;
}

const verdict = (api: Part, id: string, verb: 'approve' | 'deny') =>
  callerOf(api)('post', `/v1/cost-tickets/${id}/${verb}`, {
    key: seeded.poor.billing,
    body: verb === 'deny' ? { reason: 'no' } : {},
  });

/** A verdict that was taken. Where Temporal was not in time, the answer says to look and repeat. */
async function decided(...given: Parameters<typeof verdict>) {
  let answer = await verdict(...given);
  await until(async () => {
    if (answer.status === 503) answer = await verdict(...given);
    return answer.status !== 503;
  });
  return answer;
}

const isRunning = async (id: string) => {
  const found = await world.client.workflow
    .getHandle(id)
    .describe()
    .catch(() => undefined);
  return found?.status.name === 'RUNNING';
};

test('workers of the version before do the work of this API, and its status says who they are', async () => {
  const worker = await world.openWorker(previous);
  const approved = await openTicket(old_gateway);
  await until(() => isRunning(approved));
  expect((await decided(new_api, approved, 'approve')).body).toMatchObject({ status: 'approved' });
  const denied = await openTicket(old_gateway);
  await until(() => isRunning(denied));
  expect((await decided(new_api, denied, 'deny')).body).toMatchObject({ status: 'denied' });

  const platform = { key: seeded.platform };
  const status = () => callerOf(new_api)('get', '/v1/admin/workers/status', platform);
  await until(async () => (await status()).body.workers[0].queues[1].pollers.length === 1);
  const { problems } = (await status()).body;
  expect(problems).toContainEqual(
    expect.stringMatching(/polls lifecycle and says no version: it is older than 1\.5\.$/),
  );
  await worker.stop();
});

test('a workflow that one version began is ended by the other, in both directions', async () => {
  const pairs: [Release, Release][] = [
    [previous, current],
    [current, previous],
  ];
  let worker: Process | undefined;
  for (const [first, second] of pairs) {
    worker ??= await world.openWorker(first);
    const ticket = await openTicket(old_gateway);
    await until(() => isRunning(ticket));
    await worker.stop();
    worker = await world.openWorker(second);
    // A worker that has just begun may be too late for the first try.
    const answer = await decided(new_api, ticket, 'approve');
    expect(answer).toMatchObject({ status: 200, body: { status: 'approved' } });
    await until(async () => !(await isRunning(ticket)));
  }
  await worker?.stop();
  expect(await openTickets(new_api, seeded.poor)).toEqual([]);
});

test('a gateway of this version works with this API beside the others, over the same wallets', async () => {
  const gateway = await gatewayOf(current, new_api);
  await requireCalls(gateway, new_api, seeded);
  const seen = await requireOneBill(old_api, seeded.rich, () => ask(gateway, seeded.rich));
  expect(seen.status).toBe(200);
  await gateway.stop();
});

test('a rollout moves gateways of this version and waits for none of the version before, which takes what its group has come to', async () => {
  const call = callerOf(new_api);
  const platform = { key: seeded.platform };
  const gateway = await gatewayOf(current, new_api);
  const put = async (more: object) => {
    const body = { config: world.settings, ...more };
    const answer = await call('put', '/v1/admin/gateway-config', { ...platform, body });
    expect([answer.status, answer.body.error]).toEqual([200, undefined]);
    return answer.body;
  };
  /** The versions that gateways of 1.4 and of 1.5 run, and that each has a good answer. */
  const running = async () => {
    for (const part of [old_gateway, gateway])
      expect((await ask(part, seeded.rich)).status).toBe(200);
    const { gateways } = (await call('get', '/v1/admin/gateways', platform)).body;
    const versionAt = (version: string) =>
      gateways.find((one: { software_version: string }) => one.software_version === version)
        ?.config_version;
    return [versionAt(previous.version), versionAt(current.version)];
  };
  const run = async (...versions: number[]) =>
    until(async () => JSON.stringify(await running()) === JSON.stringify(versions), 300_000);

  const { version: first } = await put({});
  await run(first, first);
  const stages = [1, '100%'];
  const { version: second, rollout } = await put({ rollout: { stages, soak_s: 0, apply_s: 600 } });
  // Nobody steps on it yet: it is staged, so nobody has it.
  expect(await running()).toEqual([first, first]);
  const worker = await world.openWorker(current, 'config');
  const lifecycle = await world.openWorker(current);
  const at = `/v1/admin/config-rollouts/${rollout.id}`;
  const statusNow = async () => (await call('get', at, platform)).body;
  await until(async () => (await statusNow()).status !== 'running', 300_000);
  expect(await statusNow()).toMatchObject({ status: 'completed', version: second });
  expect((await statusNow()).gateways).toHaveLength(1);
  await run(second, second);
  await Promise.all([worker.stop(), lifecycle.stop(), gateway.stop()]);
});
