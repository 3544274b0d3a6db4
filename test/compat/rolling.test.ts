import { setTimeout as sleep } from 'node:timers/promises';
import { audit } from '../../domain/ledger/audit';
import { one } from '../../domain/sql';
import type { Process } from '../../sandbox/processes/processes';
import { until } from '../support/until';
import { type InRotation, startLoad } from './load';
import { checkOutPrevious, current, type Release } from './releases';
import { type CompatWorld, openCompatWorld, type Part, type Seeded, seedOver } from './world';

// An installation of the release before is brought to this one and back, one process after the
// other, while it serves.

const STEADY_MS = 1_000;
const DRAIN_MS = 180_000;
const CALLS = 100;

let previous: ReturnType<typeof checkOutPrevious>;
let world: CompatWorld;
let seeded: Seeded;
let worker: Process;
const rotation: InRotation = { apis: [], gateways: [] };

beforeAll(async () => {
  previous = checkOutPrevious();
  world = await openCompatWorld();
  // The first migrates the empty database to its own schema.
  rotation.apis.push(await world.openApi(previous));
  rotation.apis.push(await world.openApi(previous));
  seeded = await seedOver(rotation.apis[0] as Part, world.bootstrap(previous));
  for (let n = 0; n < 2; n += 1)
    rotation.gateways.push(
      await world.openGateway(previous, { apis: rotation.apis, key: seeded.control_plane }),
    );
  worker = await world.openWorker(previous);
});

afterAll(async () => {
  await world?.close();
  previous?.remove();
});

/** Each process in turn: out of rotation, drained, and another one in its place. */
async function replace(parts: Part[], open: (old: Part) => Promise<Part>): Promise<void> {
  for (const old of [...parts]) {
    parts.splice(parts.indexOf(old), 1);
    await old.stop(DRAIN_MS);
    parts.push(await open(old));
    await sleep(STEADY_MS);
  }
}

const replaceApis = (release: Release) =>
  replace(rotation.apis, ({ port }) => world.openApi(release, port));

async function replaceGateways(release: Release) {
  const apis = [...rotation.apis];
  const given = (port: number) => ({ apis, key: seeded.control_plane, port });
  await replace(rotation.gateways, ({ port }) => world.openGateway(release, given(port)));
}

async function replaceWorker(release: Release) {
  await worker.stop(DRAIN_MS);
  worker = await world.openWorker(release);
}

const migrations = () =>
  one<{ count: number }>(world.db, 'select count(*)::int as count from knex_migrations');

/** As many calls are settled as were made, no hold is open, and the ledger is whole. */
async function requireWholeLedger(calls: number): Promise<void> {
  const count = () =>
    one<{ settled: number; open: number }>(
      world.db,
      `select count(*) filter (where t.type = 'settlement')::int as settled,
         count(*) filter (where t.type = 'reservation')::int - count(*) filter (where t.type = 'settlement')::int as open
       from wallet_transactions t where t.org_id = :org_id`,
      { org_id: seeded.rich.org_id },
    );
  await until(async () => (await count()).settled >= calls);
  expect(await count()).toEqual({ settled: calls, open: 0 });
  expect((await audit(world.db)).broken).toEqual([]);
}

test('an upgrade in its order, and the way back, fail no request and lose no money', async () => {
  const before = await migrations();
  const load = startLoad(rotation, seeded.rich);
  await sleep(STEADY_MS);
  await replaceApis(current);
  expect((await migrations()).count).toBeGreaterThan(before.count);
  await replaceGateways(current);
  await replaceWorker(current);
  await sleep(STEADY_MS);
  await until(() => load.sum.calls > CALLS);
  expect(load.sum.failures).toEqual([]);
  const upgraded = load.sum.calls;

  await replaceWorker(previous);
  await replaceGateways(previous);
  await replaceApis(previous);
  await sleep(STEADY_MS);
  await until(() => load.sum.looks > CALLS);
  const { calls, failures } = await load.end();
  expect(failures).toEqual([]);
  expect(calls).toBeGreaterThan(upgraded);
  await requireWholeLedger(calls);
});
