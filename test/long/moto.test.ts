import { execFileSync } from 'node:child_process';
import { createHash, randomBytes, randomUUID } from 'node:crypto';
import { existsSync, renameSync, rmSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import {
  CreateBucketCommand,
  HeadObjectCommand,
  ListMultipartUploadsCommand,
  ListObjectsV2Command,
  S3Client,
} from '@aws-sdk/client-s3';
import { request } from 'undici';
import { openStore } from '../../exports/s3';
import { cacheFolder } from '../../runtime/config';
import { freePorts } from '../../sandbox/processes/ports';
import { launch, type Process } from '../../sandbox/processes/processes';
import { until } from '../support/until';

// Exports to a store of S3 that somebody else wrote, and that checks signatures: moto, from PyPI.

const MOTO = 'moto[server]==5.1.18';
const bucket = 'acme-exports';
const region = 'eu-central-1';

/** The folder of a Python that has it, made once. */
function installed(): string {
  const name = createHash('sha256').update(MOTO).digest('hex').slice(0, 16);
  const folder = path.join(cacheFolder(), `moto-${name}`);
  if (existsSync(folder)) return folder;
  const draft = `${folder}.${randomUUID()}`;
  execFileSync('python3', ['-m', 'venv', draft]);
  execFileSync(path.join(draft, 'bin/python'), ['-m', 'pip', 'install', '-q', MOTO]);
  renameSync(draft, folder);
  rmSync(draft, { recursive: true, force: true });
  return folder;
}

let server: Process;
let endpoint: string;
let dir: string;
let key: { access_key_id: string; secret_access_key: string };

/** From now on moto checks credentials, but for so many actions. */
async function unproved(actions: number): Promise<void> {
  const answer = await request(`${endpoint}/moto-api/reset-auth`, {
    ...{ method: 'POST', body: String(actions) },
  });
  expect(answer.statusCode).toBe(200);
  await answer.body.dump();
}

/** An action of IAM by its form, which needs no client of its own. */
async function iam(action: string, more: Record<string, string>): Promise<string> {
  const answer = await request(endpoint, {
    method: 'POST',
    headers: {
      'content-type': 'application/x-www-form-urlencoded',
      authorization:
        'AWS4-HMAC-SHA256 Credential=x/20270101/us-east-1/iam/aws4_request, SignedHeaders=host, Signature=x',
    },
    body: new URLSearchParams({ Action: action, Version: '2010-05-08', ...more }).toString(),
  });
  const text = await answer.body.text();
  expect([action, answer.statusCode]).toEqual([action, 200]);
  return text;
}

beforeAll(async () => {
  dir = await mkdtemp(path.join(tmpdir(), 'svc-moto-'));
  const [port = 0] = await freePorts(1);
  endpoint = `http://127.0.0.1:${port}`;
  server = await launch({
    name: 'moto',
    command: path.join(installed(), 'bin/python'),
    args: ['-m', 'moto.server', '-H', '127.0.0.1', '-p', String(port)],
    env: { PATH: process.env.PATH },
    cwd: dir,
    stop_signals: ['SIGINT', 'SIGTERM'],
    isReady: async () => (await request(`${endpoint}/moto-api/data.json`)).statusCode === 200,
    ready_timeout_ms: 180_000,
  });
  await iam('CreateUser', { UserName: 'exports' });
  const rights = { Effect: 'Allow', Action: 's3:*', Resource: '*' };
  await iam('PutUserPolicy', {
    ...{ UserName: 'exports', PolicyName: 'all' },
    PolicyDocument: JSON.stringify({ Version: '2012-10-17', Statement: [rights] }),
  });
  const made = await iam('CreateAccessKey', { UserName: 'exports' });
  const member = (name: string) => new RegExp(`<${name}>([^<]+)<`).exec(made)?.[1] as string;
  key = { access_key_id: member('AccessKeyId'), secret_access_key: member('SecretAccessKey') };
  await client().send(
    new CreateBucketCommand({
      Bucket: bucket,
      CreateBucketConfiguration: { LocationConstraint: region },
    }),
  );
});

afterAll(async () => {
  await server?.stop();
  await rm(dir, { recursive: true, force: true });
});

const client = () =>
  new S3Client({
    ...{ endpoint, region, forcePathStyle: true },
    credentials: { accessKeyId: key.access_key_id, secretAccessKey: key.secret_access_key },
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
