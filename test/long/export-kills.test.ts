import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';
import { many } from '../../domain/sql';
import { type ObjectStore, openObjectStore, store_key } from '../exports/object-store';
import {
  afterWritten,
  type ExportWorld,
  ended,
  openExportWorld,
  startWorkerProcess,
  sumsOf,
} from '../exports/world';
import { makeTenant, type Tenant } from '../support/api';
import { until } from '../support/until';
import {
  export_steps,
  hash,
  makeStalls,
  stallAt,
  stallNoMore,
  standsStill,
  undoStall,
  wholeFolder,
} from './export-stalls';

// A worker that is killed at each step of an export of CSV or Parquet, to a folder or to a bucket:
// the same bytes, one manifest, nothing half visible and nothing left over.

const BUCKET = 'acme-exports';
/** More than an upload sends in one part, however well it is compressed. */
const EVENTS = 4_500;

let store: ObjectStore;
let world: ExportWorld;
let tenant: Tenant;
let period: { from: string; to: Date };
let destination_id: string;
let child: ChildProcess | undefined;

beforeAll(async () => {
  store = await openObjectStore(BUCKET);
  world = await openExportWorld([store.url]);
  tenant = await makeTenant(world.db);
  const { org_id, wallet_id, owner_key: key } = tenant;
  await many(
    world.db,
    `insert into events (id, created_at, org_id, type, payload)
     select q.id, id_time(q.id), :org_id, 'request.completed', jsonb_build_object('n', q.n, 'text', q.text)
     from (select new_id('evt') as id, n, (select string_agg(md5(n || ' ' || k), '') from generate_series(1, 330) as k) as text
       from generate_series(1, :events) as n offset 0) as q`,
    { org_id, events: EVENTS },
  );
  await many(
    world.db,
    `select credit(:org_id, :wallet_id, n, 'credit ' || n) from generate_series(1, 200) as n`,
    { org_id, wallet_id },
  );
  await makeStalls(world.db);
  period = { from: new Date(Date.now() - 3_600_000).toISOString(), to: await afterWritten() };
  const body = { endpoint: store.url, region: 'eu-central-1', bucket: BUCKET, ...store_key };
  const made = await world.call('post', '/v1/export-destinations', { key, body });
  expect(made.status).toBe(201);
  destination_id = made.body.id;
});

afterAll(async () => {
  child?.kill('SIGKILL');
  await world.close();
  await store.close();
});

async function ask(more: object): Promise<string> {
  const body = { kinds: ['events', 'ledger', 'statement'], ...period, ...more };
  const answer = await world.call('post', '/v1/exports', { key: tenant.owner_key, body });
  expect(answer.status).toBe(201);
  return answer.body.id;
}

/** What an export that nobody disturbs writes. */
async function undisturbed(more: object): Promise<Record<string, string>> {
  const exporter = await world.startExporter();
  const done = await ended(world, tenant.owner_key, await ask(more));
  await exporter.stop();
  expect(done.status).toBe('completed');
  return sumsOf(done);
}

const startWorker = () => {
  child = startWorkerProcess(world, { EXPORT_S3_ORIGINS: store.url });
  return child;
};

type Asked = { method: string; key: string; query?: URLSearchParams };
const isPart = ({ method, query }: Asked) => method === 'PUT' && query?.has('partNumber');
const isManifest = ({ method, key }: Asked) => method === 'PUT' && key.endsWith('manifest.json');

/** Where a worker dies, in their order: as a request arrives, or as it is carried out. */
const points: { at: string; is_after?: true; isIt: (asked: Asked) => boolean | undefined }[] = [
  {
    at: 'a further part is',
    isIt: (asked) => isPart(asked) && asked.query?.get('partNumber') === '2',
  },
  {
    at: 'all parts are there',
    isIt: ({ method, query }) => method === 'POST' && query?.has('uploadId'),
  },
  { at: 'the file is there, its row not', is_after: true, isIt: ({ method }) => method === 'POST' },
  { at: 'the manifest is on its way', isIt: isManifest },
  { at: 'the manifest is there, its row not', is_after: true, isIt: isManifest },
  {
    at: 'what is left over is looked for',
    isIt: ({ method, query }) => method === 'GET' && query?.has('uploads'),
  },
];

/** Each death costs half a minute on a quiet machine, until another worker has started. */
const DEATH_MS = 300_000;

test(
  'a worker that is killed at each step of an upload leaves no trace',
  async () => {
    const format = 'csv';
    const more = { format, destination_id };
    const expected = await undisturbed(more);
    const whole = new Set(Object.values(expected));
    const id = await ask(more);
    const killed: string[] = [];
    const half: string[] = [];
    const kill = (asked: Asked, is_after: boolean) => {
      const point = points[killed.length];
      if (!asked.key.includes(id) && !asked.query?.get('prefix')?.includes(id)) return undefined;
      if (point === undefined || !point.isIt(asked) || (point.is_after ?? false) !== is_after)
        return undefined;
      killed.push(point.at);
      child?.kill('SIGKILL');
      for (const [name, bytes] of store.objects)
        if (name.includes(id) && !name.endsWith('manifest.json') && !whole.has(hash(bytes)))
          half.push(`${point.at}: ${name}`);
      return { status: 500, code: 'InternalError' };
    };
    store.trouble = (asked) => kill(asked, false);
    store.trouble_after = (asked) => kill(asked, true);
    startWorker();
    let body: { status: string; error_message?: string } = { status: 'running' };
    await until(async () => {
      await world.dispatch();
      if (child?.exitCode !== null || child.signalCode !== null) startWorker();
      ({ body } = await world.call('get', `/v1/exports/${id}`, { key: tenant.owner_key }));
      return !['queued', 'running'].includes(body.status);
    }, points.length * DEATH_MS);
    child?.kill('SIGTERM');
    expect([body.status, killed, half]).toEqual(['completed', points.map(({ at }) => at), []]);
    expect(sumsOf(body)).toEqual(expected);
    const names = [...store.objects.keys()].filter((name) => name.includes(id));
    expect(names.filter((name) => name.endsWith('manifest.json'))).toHaveLength(1);
    expect(names).toHaveLength(whole.size + 1);
    for (const name of names.filter((one) => !one.endsWith('manifest.json')))
      expect([name, whole.has(hash(store.objects.get(name)))]).toEqual([name, true]);
    const manifest = names.find((name) => name.endsWith('manifest.json')) as string;
    for (const { name, sha256 } of JSON.parse(String(store.objects.get(manifest))).files)
      if (name !== null)
        expect(hash(store.objects.get(path.join(path.dirname(manifest), name)))).toBe(sha256);
    expect([...store.uploads.keys()]).toEqual([]);
  },
  (points.length + 2) * DEATH_MS,
);

test.each(['csv', 'parquet'])(
  'a worker that is killed at each record of a folder of %s leaves no trace',
  async (format) => {
    const small = { format, kinds: ['ledger', 'statement', 'audit_log'] };
    const expected = await undisturbed(small);
    const id = await ask(small);
    for (const step of export_steps) {
      await stallAt(world.db, step);
      const worker = startWorker();
      await until(async () => {
        await world.dispatch();
        return standsStill(world.db);
      }, DEATH_MS);
      worker.kill('SIGKILL');
      await once(worker, 'exit');
      await stallNoMore(world.db);
      await undoStall(world.db);
    }
    startWorker();
    const done = await ended(world, tenant.owner_key, id);
    child?.kill('SIGTERM');
    expect([done.status, done.error_code]).toEqual(['completed', null]);
    expect(sumsOf(done)).toEqual(expected);
    await wholeFolder(world.dir, id);
  },
  (export_steps.length + 2) * DEATH_MS,
);
