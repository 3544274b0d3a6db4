import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import pino from 'pino';
import * as reservations from '../../../domain/ledger/reservations';
import { Spool, type Spooled } from '../../../gateway/control-plane/spool';
import { freePorts } from '../../../sandbox/processes/ports';
import { launch, type Process } from '../../../sandbox/processes/processes';
import { serverProgram } from '../../../sandbox/product/node-programs';
import {
  arrivals,
  chat,
  forgetArrivals,
  gatewayKey,
  lastCharge,
  openHolds,
  openWorld,
  post,
  type World,
} from '../../support/gateway';
import { credit, makeOrg, makeOverdue } from '../../support/ledger';
import { until } from '../../support/until';
import { openWire } from '../../support/wire';

let world: World;
let folder: string;
const started: Process[] = [];
const lines: string[] = [];
const log = pino({ level: 'info' }, { write: (line: string) => lines.push(line) });

beforeAll(async () => {
  world = await openWorld();
});

beforeEach(() => {
  folder = mkdtempSync(path.join(tmpdir(), 'svc-spool-'));
  lines.length = 0;
});

afterEach(() => rmSync(folder, { recursive: true, force: true }));

afterAll(async () => {
  await Promise.all(started.map((process) => process.stop()));
  await world.close();
});

const files = (dir: string) => readdirSync(dir).filter((name) => name.endsWith('.jsonl'));

async function startGateway(
  control_plane_url: string,
  more: Record<string, string>,
  models_url = world.models_url,
) {
  const [port = 0] = await freePorts(1);
  const url = `http://127.0.0.1:${port}`;
  const file = path.join(folder, 'gateway.yaml');
  writeFileSync(
    file,
    `providers:
  targets:
    - {id: sandbox, provider: openai, shape: openai, base_url: ${models_url}/v1, api_key_env: TEST_MODELS_KEY, models: [gpt-4o-mini]}
`,
  );
  const env = {
    CONTROL_PLANE_URL: control_plane_url,
    CONTROL_PLANE_TOKEN: world.control_plane_token,
    GATEWAY_CONFIG: file,
    TEST_MODELS_KEY: 'upstream-secret',
    GATEWAY_PORT: String(port),
    LOG_LEVEL: 'info',
    ...more,
  };
  const ready_url = `${url}/readyz`;
  const program = serverProgram({ name: 'gateway', script: 'gateway/main.ts', env, ready_url });
  const running = await launch(program);
  started.push(running);
  return { url, running };
}

/** A call that was answered by a gateway that then died, before it could settle. */
async function answeredAndDead(more: Record<string, string>) {
  const wire = await openWire(world.api.url);
  const models = await openWire(world.models_url);
  const { url, running } = await startGateway(wire.url, more, models.url);
  const org = await makeOrg(world.api.db);
  await credit(world.api.db, org.org_id, org.org_wallet, 1_000_000_000n);
  const key = await gatewayKey(world.api, org.org_id);
  const body = chat('Hello');
  await forgetArrivals(world.models_url);
  models.keepAfter('');
  const answering = post(`${url}/v1/chat/completions`, key, body);
  // The gateway has heard of its hold once it asks the provider.
  await until(async () => (await arrivals(world.models_url)).length === 1);
  wire.set('cut');
  models.release();
  expect((await answering).status).toBe(200);
  // The call ends a moment after its last byte.
  const spool = more.GATEWAY_SPOOL_DIR;
  if (spool !== undefined)
    await until(async () =>
      files(spool).some((name) => readFileSync(path.join(spool, name), 'utf8').includes('res_')),
    );
  process.kill(running.pid, 'SIGKILL');
  await running.ended;
  await wire.close();
  await models.close();
  return org;
}

test('what a gateway did not live to settle is settled by the next one, once', async () => {
  const GATEWAY_SPOOL_DIR = path.join(folder, 'spool');
  const { org_id } = await answeredAndDead({ GATEWAY_SPOOL_DIR });
  const [name = ''] = files(GATEWAY_SPOOL_DIR);
  expect(statSync(path.join(GATEWAY_SPOOL_DIR, name)).mode & 0o777).toBe(0o600);
  expect(readFileSync(path.join(GATEWAY_SPOOL_DIR, name), 'utf8')).not.toContain('Hello');
  expect(await openHolds(world.api, org_id)).toBe(1);
  // As half a minute later: nobody touches the file any more.
  utimesSync(path.join(GATEWAY_SPOOL_DIR, name), 0, 0);
  await startGateway(world.api.url, { GATEWAY_SPOOL_DIR });
  expect(await lastCharge(world, org_id)).toMatchObject({
    status: 'settled',
    usage_source: 'upstream',
  });
  await until(() => !files(GATEWAY_SPOOL_DIR).includes(name));
});

test('without a spool the hold is released, and the event says that nobody settled it', async () => {
  const { org_id } = await answeredAndDead({});
  const [{ id }] = await world.api.db('reservations').where({ org_id });
  await makeOverdue(world.api.db, id);
  await reservations.sweep(world.api.db, org_id);
  const events = await world.api.db('events').where({ org_id, type: 'reservation.expired' });
  expect(events).toMatchObject([{ payload: { reservation_id: id, unsettled: true } }]);
});

const settlement = (n: number): Spooled => [
  { org_id: 'org_1', reservation_id: `res_${n}`, outcome: 'canceled' },
];

/** The reservations that a process finds in the folder as it starts. */
function foundBy(dir: string): string[] {
  const found: string[] = [];
  const next = new Spool(dir, log);
  next.takeOver(({ reservation_id }, _, forget) => {
    found.push(String(reservation_id));
    forget();
  });
  next.close();
  return found;
}

test('a process leaves what was not accepted, and nothing else; a line that was cut spoils no other', () => {
  const spool = new Spool(folder, log);
  const forget = [1, 2, 3].map((n) => spool.keep(settlement(n)));
  forget[1]?.();
  // Nothing is taken from a process that lives.
  expect(foundBy(folder)).toEqual([]);
  const [name = ''] = files(folder);
  const file = path.join(folder, name);
  writeFileSync(file, '\n[4,{"org_id":"org_1","reserv', { flag: 'a' });
  spool.keep(settlement(5));
  spool.close();
  expect(foundBy(folder)).toEqual(['res_1', 'res_3', 'res_5']);
  expect(files(folder)).toEqual([]);
});

test('the file stays within its bound: what was accepted makes room, what does not fit is told and not spooled', () => {
  const spool = new Spool(folder, log, 2_000);
  const size = () => statSync(path.join(folder, files(folder)[0] ?? '')).size;
  for (let n = 0; n < 500; n += 1) {
    spool.keep(settlement(n))();
    expect(size()).toBeLessThanOrEqual(2_100);
  }
  expect(lines).toEqual([]);
  for (let n = 0; n < 100; n += 1) spool.keep(settlement(n));
  expect(size()).toBeLessThanOrEqual(2_000);
  expect(lines).toHaveLength(1);
  expect(lines[0]).toContain('a death of this gateway loses them');
  spool.close();
  expect(foundBy(folder).length).toBeGreaterThan(10);
});

test('what a process left stays until all of it is accepted, though whoever sends it has no room', () => {
  const ended = new Spool(folder, log);
  for (const n of [1, 2, 3]) ended.keep(settlement(n));
  ended.close();
  const [name = ''] = files(folder);
  const sender = new Spool(folder, log, 10);
  const forgets: (() => void)[] = [];
  const sent: unknown[] = [];
  const look = () =>
    sender.takeOver(({ reservation_id }, _, forget) => {
      sent.push(reservation_id);
      forgets.push(forget);
    });
  look();
  look();
  expect(sent).toEqual(['res_1', 'res_2', 'res_3']);
  for (const forget of forgets.slice(0, 2)) forget();
  // Another one leaves it to whoever sends it, as long as that one lives.
  expect(foundBy(folder)).toEqual([]);
  expect(files(folder)).toContain(name);
  utimesSync(path.join(folder, name), 0, 0);
  expect(foundBy(folder)).toEqual(['res_1', 'res_2', 'res_3']);
  expect(files(folder)).not.toContain(name);
  // Sent twice at worst, and removed by whoever was first.
  forgets[2]?.();
  sender.close();
  expect(files(folder)).toEqual([]);
});

test('what a process was sending for another one as it ended is left to the next at once', () => {
  const ended = new Spool(folder, log);
  ended.keep(settlement(1));
  ended.close();
  const sender = new Spool(folder, log);
  const forgets: (() => void)[] = [];
  sender.takeOver((_, __, forget) => forgets.push(forget));
  sender.close();
  // Nobody is told that it was accepted any more.
  forgets[0]?.();
  expect(foundBy(folder)).toEqual(['res_1']);
  expect(files(folder)).toEqual([]);
});

test('a process that was taken for dead writes its file anew', () => {
  const spool = new Spool(folder, log, 400);
  const forget = spool.keep(settlement(1));
  rmSync(path.join(folder, files(folder)[0] ?? ''));
  // The bound makes it write the file anew.
  for (let n = 2; n < 20; n += 1) spool.keep(settlement(n))();
  expect(files(folder)).toHaveLength(1);
  forget();
  spool.close();
  expect(foundBy(folder)).toEqual([]);
});

test('a folder that cannot be written is said at the start', () => {
  const file = path.join(folder, 'file');
  writeFileSync(file, '');
  mkdirSync(path.join(folder, 'other'));
  expect(() => new Spool(path.join(file, 'below'), log)).toThrow(/GATEWAY_SPOOL_DIR cannot/);
});

test('a folder that goes while the gateway runs ends nothing, is told once, and is made anew', () => {
  const spool = new Spool(folder, log, 400);
  spool.keep(settlement(1));
  rmSync(folder, { recursive: true });
  const sent: Spooled[] = [];
  const send = (one: Spooled[0]) => void sent.push([one, undefined]);
  for (let n = 0; n < 3; n += 1) spool.takeOver(send);
  expect(lines.filter((line) => line.includes('are not spooled'))).toHaveLength(1);
  // The bound makes it write the file anew, and the folder with it.
  for (let n = 2; n < 20; n += 1) spool.keep(settlement(n))();
  expect(files(folder)).toHaveLength(1);
  spool.close();
  expect(foundBy(folder)).toHaveLength(1);
  expect(sent).toEqual([]);
});

test('a folder that is gone as the gateway ends fails no end', () => {
  const spool = new Spool(folder, log);
  spool.keep(settlement(1));
  rmSync(folder, { recursive: true });
  expect(() => spool.close()).not.toThrow();
});
