import { execFileSync } from 'node:child_process';
import { createHash, randomUUID } from 'node:crypto';
import { existsSync, renameSync, rmSync } from 'node:fs';
import path from 'node:path';
import { CreateBucketCommand, S3Client } from '@aws-sdk/client-s3';
import { request } from 'undici';
import { cacheFolder } from '../../runtime/config';
import { freePorts } from '../../sandbox/processes/ports';
import { killGroup, launch } from '../../sandbox/processes/processes';

const MOTO = 'moto[server]==5.1.18';
const READY_MS = 180_000;

/** A store of S3 that somebody else wrote: moto, from PyPI, with one bucket. */
export interface Moto {
  endpoint: string;
  /** Of a user who may do all. */
  key: { access_key_id: string; secret_access_key: string };
  /** A client with that key. */
  client: () => S3Client;
  /** Kills it, at once. */
  kill: () => Promise<void>;
  /** Starts it again at its address. It has forgotten all but gets its bucket. */
  restart: () => Promise<void>;
  stop: () => Promise<void>;
}

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

/** Starts it on a free port; its working folder is `cwd`. */
export async function openMoto(given: {
  cwd: string;
  bucket: string;
  region: string;
}): Promise<Moto> {
  const { cwd, bucket, region } = given;
  const [port = 0] = await freePorts(1);
  const endpoint = `http://127.0.0.1:${port}`;
  const start = () =>
    launch({
      name: 'moto',
      command: path.join(installed(), 'bin/python'),
      args: ['-m', 'moto.server', '-H', '127.0.0.1', '-p', String(port)],
      env: { PATH: process.env.PATH },
      cwd,
      stop_signals: ['SIGINT', 'SIGTERM'],
      isReady: async () => (await request(`${endpoint}/moto-api/data.json`)).statusCode === 200,
      ready_timeout_ms: READY_MS,
    });
  let server = await start();
  await iam(endpoint, 'CreateUser', { UserName: 'exports' });
  const rights = { Effect: 'Allow', Action: 's3:*', Resource: '*' };
  await iam(endpoint, 'PutUserPolicy', {
    ...{ UserName: 'exports', PolicyName: 'all' },
    PolicyDocument: JSON.stringify({ Version: '2012-10-17', Statement: [rights] }),
  });
  const made = await iam(endpoint, 'CreateAccessKey', { UserName: 'exports' });
  const member = (name: string) => new RegExp(`<${name}>([^<]+)<`).exec(made)?.[1] as string;
  const key = {
    access_key_id: member('AccessKeyId'),
    secret_access_key: member('SecretAccessKey'),
  };
  const client = () =>
    new S3Client({
      ...{ endpoint, region, forcePathStyle: true },
      credentials: { accessKeyId: key.access_key_id, secretAccessKey: key.secret_access_key },
    });
  const makeBucket = () =>
    client().send(
      new CreateBucketCommand({
        Bucket: bucket,
        CreateBucketConfiguration: { LocationConstraint: region as 'eu-central-1' },
      }),
    );
  await makeBucket();
  const kill = async () => {
    killGroup(server.pid);
    await server.ended;
  };
  const restart = async () => {
    server = await start();
    await makeBucket();
  };
  return { endpoint, key, client, kill, restart, stop: () => server.stop() };
}

/** An action of IAM by its form, which needs no client of its own. */
async function iam(
  endpoint: string,
  action: string,
  more: Record<string, string>,
): Promise<string> {
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
