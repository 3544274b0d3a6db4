import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer, type IncomingMessage, type Server, request as send } from 'node:http';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { buffer } from 'node:stream/consumers';
import {
  GetObjectCommand,
  ListMultipartUploadsCommand,
  ListObjectsV2Command,
} from '@aws-sdk/client-s3';
import { many } from '../../domain/sql';
import { listen } from '../../runtime/listen';
import {
  afterWritten,
  type ExportWorld,
  openExportWorld,
  startWorkerProcess,
  sumsOf,
} from '../exports/world';
import { type Answer, makeTenant, type Tenant } from '../support/api';
import { until } from '../support/until';
import { keepSending } from '../support/worker';
import { hash } from './export-stalls';
import { type Moto, openMoto } from './moto';

// An export of Parquet to a bucket of moto whose worker is killed in the middle of an upload, and
// between what the bucket has and what the row says of it; and one whose store is killed.

const bucket = 'acme-exports';
const region = 'eu-central-1';
/** Their Parquet is more than an upload sends in one part, of 16 MB. */
const EVENTS = 2_500;

let dir: string;
let moto: Moto;
let way: Way;
let world: ExportWorld;
let stopSending: () => Promise<void>;
let tenant: Tenant;
let destination_id: string;
let period: { from: string; to: Date };
let worker: ChildProcess;

beforeAll(async () => {
  dir = await mkdtemp(path.join(tmpdir(), 'svc-moto-'));
  moto = await openMoto({ cwd: dir, bucket, region });
  way = await openWay(moto.endpoint);
  world = await openExportWorld([way.url]);
  stopSending = keepSending(world);
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
  period = { from: new Date(Date.now() - 3_600_000).toISOString(), to: await afterWritten() };
  worker = startWorker();
  const body = { endpoint: way.url, region, bucket, ...moto.key };
  const made = await world.call('post', '/v1/export-destinations', { key, body });
  expect(made.status).toBe(201);
  destination_id = made.body.id;
});

afterAll(async () => {
  worker?.kill('SIGKILL');
  await stopSending?.();
  await world?.close();
  way?.close();
  await moto?.stop();
  await rm(dir, { recursive: true, force: true });
});

const startWorker = () => startWorkerProcess(world, { EXPORT_S3_ORIGINS: way.url });

/** What a worker asks of the store. */
interface Asked {
  method: string | undefined;
  key: string;
  query: URLSearchParams;
}

/** All that goes to moto passes here, where a test may end whoever asks. */
interface Way {
  url: string;
  /** Hears of each request before moto gets it; true cuts it off. */
  before: (asked: Asked) => boolean;
  /** Hears of each that moto has carried out, ahead of its answer; true cuts that off. */
  after: (asked: Asked) => boolean;
  close: () => void;
}

async function openWay(endpoint: string): Promise<Way> {
  const server: Server = createServer((incoming, outgoing) => {
    carry(incoming)
      .then((answer) => {
        if (answer === undefined) return incoming.socket.destroy();
        outgoing.writeHead(answer.status, answer.headers).end(answer.body);
      })
      // Whoever asked is gone.
      .catch(() => incoming.socket.destroy());
  });
  const opened: Way = {
    url: `http://127.0.0.1:${await listen(server, 0)}`,
    before: () => false,
    after: () => false,
    close: () => {
      server.close();
      server.closeAllConnections();
    },
  };
  async function carry(incoming: IncomingMessage) {
    const { method, headers } = incoming;
    const { pathname, search, searchParams: query } = new URL(incoming.url ?? '/', endpoint);
    const body = await buffer(incoming);
    const asked = { method, key: decodeURIComponent(pathname), query };
    if (opened.before(asked)) return undefined;
    const passed = send(new URL(`${pathname}${search}`, endpoint), { method, headers }).end(body);
    const [answer] = (await once(passed, 'response')) as [IncomingMessage];
    const told = await buffer(answer);
    if (opened.after(asked)) return undefined;
    return { status: answer.statusCode ?? 502, headers: answer.headers, body: told };
  }
  return opened;
}

async function ask(): Promise<string> {
  const kinds = ['events', 'ledger', 'statement'];
  const body = { kinds, format: 'parquet', destination_id, ...period };
  const answer = await world.call('post', '/v1/exports', { key: tenant.owner_key, body });
  expect(answer.status).toBe(201);
  return answer.body.id;
}

async function ended(id: string, beside: () => void = () => undefined): Promise<Answer['body']> {
  let body: Answer['body'];
  await until(async () => {
    beside();
    ({ body } = await world.call('get', `/v1/exports/${id}`, { key: tenant.owner_key }));
    return !['queued', 'running'].includes(body.status);
    // Each death is noticed after 10 s.
  }, 600_000);
  return body;
}

/** The uploads that nobody has ended, by their keys. */
async function uploads(): Promise<string[]> {
  const asked = new ListMultipartUploadsCommand({ Bucket: bucket });
  const { Uploads = [] } = await moto.client().send(asked);
  return Uploads.map(({ Key }) => Key as string);
}

/** The objects of an export, by their names. */
async function objectsOf(id: string): Promise<Map<string, Buffer>> {
  const client = moto.client();
  const Prefix = `org/${tenant.org_id}/${id}/`;
  const { Contents = [] } = await client.send(new ListObjectsV2Command({ Bucket: bucket, Prefix }));
  const found = new Map<string, Buffer>();
  for (const { Key = '' } of Contents) {
    const { Body } = await client.send(new GetObjectCommand({ Bucket: bucket, Key }));
    found.set(Key.slice(Prefix.length), Buffer.from((await Body?.transformToByteArray()) ?? []));
  }
  return found;
}

const isFile = ({ key }: Asked) => !key.endsWith('manifest.json');

/** Where a worker dies, in their order: as a request arrives, or as moto has carried it out. */
const points: { at: string; is_after: boolean; isIt: (asked: Asked) => boolean }[] = [
  {
    at: 'a further part is sent',
    is_after: false,
    isIt: ({ method, query }) => method === 'PUT' && query.get('partNumber') === '2',
  },
  {
    at: 'the file is there, its row not',
    is_after: true,
    isIt: (asked) => asked.method === 'POST' && asked.query.has('uploadId') && isFile(asked),
  },
  {
    at: 'the manifest is there, its row not',
    is_after: true,
    isIt: (asked) => asked.method === 'PUT' && !isFile(asked),
  },
];

test('a worker that is killed in each step of an upload leaves the same bytes, one manifest and no upload', async () => {
  const undisturbed = await ended(await ask());
  expect([undisturbed.status, undisturbed.error_code]).toEqual(['completed', null]);
  const id = await ask();
  const killed: string[] = [];
  const kill = (asked: Asked, is_after: boolean): boolean => {
    const point = points[killed.length];
    if (point === undefined || !asked.key.includes(id)) return false;
    if (point.is_after !== is_after || !point.isIt(asked)) return false;
    killed.push(point.at);
    worker.kill('SIGKILL');
    return true;
  };
  way.before = (asked) => kill(asked, false);
  way.after = (asked) => kill(asked, true);
  let left: string[] = [];
  const done = await ended(id, () => {
    if (worker.signalCode === null) return;
    if (killed.length === 1) void uploads().then((found) => left.push(...found));
    worker = startWorker();
  });
  left = [...new Set(left)];
  expect([done.status, killed]).toEqual(['completed', points.map(({ at }) => at)]);
  // What the first death left behind was there, and is gone.
  expect(left).toEqual([expect.stringMatching(new RegExp(`${id}/events-.*parquet$`))]);
  expect(await uploads()).toEqual([]);
  expect(sumsOf(done)).toEqual(sumsOf(undisturbed));
  const [before, objects] = [await objectsOf(undisturbed.id), await objectsOf(id)];
  expect([...objects.keys()].sort()).toEqual([...before.keys()].sort());
  expect([...objects.keys()].filter((name) => name.includes('manifest'))).toHaveLength(1);
  const { export_id, as_of, ...manifest } = JSON.parse(String(objects.get('manifest.json')));
  const {
    export_id: _id,
    as_of: _as_of,
    ...other
  } = JSON.parse(String(before.get('manifest.json')));
  expect(manifest).toEqual(other);
  for (const { name, sha256 } of manifest.files)
    if (name !== null) {
      expect([name, hash(objects.get(name))]).toEqual([name, sha256]);
      expect(objects.get(name)?.equals(before.get(name) as Buffer)).toBe(true);
    }
});

test('a store that is killed in the middle of an upload and comes back without it gets the same bytes', async () => {
  const undisturbed = await ended(await ask());
  expect(undisturbed.status).toBe('completed');
  const id = await ask();
  let killed: Promise<void> | undefined;
  way.before = ({ key, query }) => {
    if (killed !== undefined || !key.includes(id) || query.get('partNumber') !== '2') return false;
    killed = moto.kill();
    return true;
  };
  // It says what it waits for, and goes on by itself.
  await until(async () => {
    const { body } = await world.call('get', `/v1/exports/${id}`, { key: tenant.owner_key });
    expect(body.status).toBe('running');
    return body.error_code === 'export_target_failed';
  }, 120_000);
  await killed;
  await moto.restart();
  const done = await ended(id);
  expect([done.status, done.error_code]).toEqual(['completed', null]);
  expect(sumsOf(done)).toEqual(sumsOf(undisturbed));
  const objects = await objectsOf(id);
  expect([...objects.keys()].filter((name) => name.includes('manifest'))).toHaveLength(1);
  for (const { name, sha256 } of JSON.parse(String(objects.get('manifest.json'))).files)
    if (name !== null) expect([name, hash(objects.get(name))]).toEqual([name, sha256]);
  expect(await uploads()).toEqual([]);
});
