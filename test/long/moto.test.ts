import { createHash, randomBytes, randomUUID } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import {
  HeadObjectCommand,
  ListMultipartUploadsCommand,
  ListObjectsV2Command,
} from '@aws-sdk/client-s3';
import { request } from 'undici';
import { openStore } from '../../exports/s3';
import { until } from '../support/until';
import { type Moto, openMoto } from './moto';

// Exports to a store of S3 that somebody else wrote, and that checks signatures: moto, from PyPI.

const bucket = 'acme-exports';
const region = 'eu-central-1';

let server: Moto;
let endpoint: string;
let dir: string;
let key: Moto['key'];
let client: Moto['client'];

/** From now on moto checks credentials, but for so many actions. */
async function unproved(actions: number): Promise<void> {
  const answer = await request(`${endpoint}/moto-api/reset-auth`, {
    ...{ method: 'POST', body: String(actions) },
  });
  expect(answer.statusCode).toBe(200);
  await answer.body.dump();
}

beforeAll(async () => {
  dir = await mkdtemp(path.join(tmpdir(), 'svc-moto-'));
  server = await openMoto({ cwd: dir, bucket, region });
  ({ endpoint, key, client } = server);
});

afterAll(async () => {
  await server?.stop();
  await rm(dir, { recursive: true, force: true });
});

const store = (more: object = {}) =>
  openStore({
    destination: { endpoint, region, bucket, ...key, ...more },
    origins: [endpoint],
    probe_folder: 'org/a',
  });

async function drafted(bytes: Buffer): Promise<{ draft: string; sha256: string }> {
  const draft = path.join(dir, randomUUID());
  await writeFile(draft, bytes);
  return { draft, sha256: createHash('sha256').update(bytes).digest('hex') };
}

test('the keys of a user may write, and what is wrong with others is said by its member', async () => {
  await unproved(0);
  await store().check();
  for (const [more, param] of [
    [{ secret_access_key: 'another' }, 'secret_access_key'],
    [{ access_key_id: 'AKIAUNKNOWN' }, 'access_key_id'],
    [{ bucket: 'nobodys-bucket' }, 'bucket'],
  ] as const)
    await expect(store(more).check()).rejects.toMatchObject({
      ...{ code: 'export_target_refused', details: { param } },
    });
  // It knows no signature of an address, nor of some actions.
  await unproved(1_000_000);
});

test('a file of several parts is whole in the bucket, and a reader is let in for a while', async () => {
  const bytes = randomBytes(40 * 1_048_576);
  const { draft, sha256 } = await drafted(bytes);
  await store().publish(draft, 'org/a/exp_1/events.jsonl.gz', sha256);
  const Key = 'org/a/exp_1/events.jsonl.gz';
  const head = await client().send(new HeadObjectCommand({ Bucket: bucket, Key }));
  expect(head).toMatchObject({ ContentLength: bytes.length, Metadata: { sha256 } });
  // The tag of an object of three parts.
  expect(head.ETag).toMatch(/-3"$/);
  const found = await store().read(Key);
  const answer = await request((found as { url: string }).url);
  expect(answer.statusCode).toBe(200);
  const read = Buffer.from(await answer.body.arrayBuffer());
  expect(createHash('sha256').update(read).digest('hex')).toBe(sha256);
});

test('an upload that nobody wants any more leaves no object and no parts', async () => {
  const { draft, sha256 } = await drafted(randomBytes(64 * 1_048_576));
  const stop = new AbortController();
  const Key = 'org/a/exp_2/events.jsonl.gz';
  const publishing = store().publish(draft, Key, sha256, stop.signal);
  const ended = expect(publishing).rejects.toThrow();
  await until(async () => (await uploads()).length > 0);
  stop.abort(new Error('canceled'));
  await ended;
  // The store hears of it a moment later.
  await until(async () => (await uploads()).length === 0);
  const head = client().send(new HeadObjectCommand({ Bucket: bucket, Key }));
  await expect(head).rejects.toMatchObject({ name: 'NotFound' });
});

async function uploads() {
  const { Uploads = [] } = await client().send(new ListMultipartUploadsCommand({ Bucket: bucket }));
  return Uploads;
}

test('what is cleared is gone, and nothing beside it', async () => {
  for (const name of ['org/a/exp_3/a', 'org/a/exp_3/b', 'org/a/exp_30/a']) {
    const { draft, sha256 } = await drafted(Buffer.from(name));
    await store().publish(draft, name, sha256);
  }
  await store().clear('org/a/exp_3');
  const { Contents = [] } = await client().send(
    new ListObjectsV2Command({ Bucket: bucket, Prefix: 'org/a/exp_3' }),
  );
  expect(Contents.map(({ Key }) => Key)).toEqual(['org/a/exp_30/a']);
});
