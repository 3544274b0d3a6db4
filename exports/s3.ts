import { createReadStream } from 'node:fs';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import {
  DeleteObjectCommand,
  DeleteObjectsCommand,
  GetObjectCommand,
  ListObjectsV2Command,
  PutObjectCommand,
  S3Client,
} from '@aws-sdk/client-s3';
import { Upload } from '@aws-sdk/lib-storage';
import { getSignedUrl } from '@aws-sdk/s3-request-presigner';
import { AppError } from '../domain/errors';
import type { OpenDestination } from '../domain/exports/destinations';
import { quietObjectStores } from '../runtime/config';
import { draftIn } from './drafts';
import { agentsFor } from './s3-network';
import type { ExportTarget } from './target';

const URL_SECONDS = 300;
const PART_BYTES = 16 * 1_048_576;
const CONNECT_MS = 5_000;
const ANSWER_MS = 60_000;

quietObjectStores();

interface Store {
  destination: OpenDestination;
  /** Origins that the operator has listed: EXPORT_S3_ORIGINS. */
  origins: readonly string[];
  /** The folder that a probe is written to: that of the destination's owner. */
  probe_folder: string;
}

/**
 * The files of exports in a bucket. A file is written beside this process first: what is sent is
 * whole, and it has its name in the bucket once all of it is there.
 */
export function openStore({ destination, origins, probe_folder }: Store): ExportTarget {
  const { endpoint, region, bucket: Bucket, access_key_id, secret_access_key } = destination;
  requireListed(endpoint, origins);
  const client = new S3Client({
    endpoint,
    region,
    // The bucket stands in the path: the host stays the one that was listed.
    forcePathStyle: true,
    // These alone: nothing that this process or its machine may do is lent to anybody.
    credentials: { accessKeyId: access_key_id, secretAccessKey: secret_access_key },
    maxAttempts: 3,
    // Stores that are not Amazon's know no checksums of requests.
    requestChecksumCalculation: 'WHEN_REQUIRED',
    responseChecksumValidation: 'WHEN_REQUIRED',
    requestHandler: {
      ...agentsFor(endpoint),
      connectionTimeout: CONNECT_MS,
      requestTimeout: ANSWER_MS,
    },
  });
  return {
    async check() {
      const probe = { Bucket, Key: `${probe_folder}/.svc-probe` };
      await explained(destination, async () => {
        await client.send(new PutObjectCommand({ ...probe, Body: 'svc' }));
        await client.send(new DeleteObjectCommand(probe));
      });
    },
    draft: (name, attempt) =>
      draftIn(path.join(tmpdir(), 'svc-export-drafts'), name.replaceAll('/', '-'), attempt),
    async publish(draft, name, sha256, signal) {
      const upload = new Upload({
        client,
        params: { Bucket, Key: name, Body: createReadStream(draft), Metadata: { sha256 } },
        partSize: PART_BYTES,
        queueSize: 2,
        leavePartsOnError: false,
      });
      const stop = () => void upload.abort();
      signal?.addEventListener('abort', stop, { once: true });
      try {
        await explained(destination, () => upload.done());
      } finally {
        signal?.removeEventListener('abort', stop);
      }
    },
    discard: (draft) => rm(draft, { force: true }),
    clear: (folder) => explained(destination, () => deleteAll(client, Bucket, `${folder}/`)),
    async read(name) {
      const command = new GetObjectCommand({ Bucket, Key: name });
      return { url: await getSignedUrl(client, command, { expiresIn: URL_SECONDS }) };
    },
    close: () => client.destroy(),
  };
}

async function deleteAll(client: S3Client, Bucket: string, Prefix: string): Promise<void> {
  for (;;) {
    const { Contents = [] } = await client.send(new ListObjectsV2Command({ Bucket, Prefix }));
    if (Contents.length === 0) return;
    const Objects = Contents.map(({ Key }) => ({ Key }));
    const { Errors = [] } = await client.send(
      new DeleteObjectsCommand({ Bucket, Delete: { Objects, Quiet: true } }),
    );
    if (Errors.length > 0) throw Object.assign(new Error(), { name: Errors[0]?.Code ?? 'Error' });
  }
}

function requireListed(endpoint: string, origins: readonly string[]): void {
  if (origins.includes(endpoint)) return;
  throw refused(
    origins.length === 0
      ? 'This installation writes to no object store. Its operator lists them in EXPORT_S3_ORIGINS.'
      : `${endpoint} is none of the object stores of this installation: ${origins.join(', ')}.`,
    'endpoint',
  );
}

function refused(message: string, param: string): AppError {
  return new AppError('export_target_refused', message, { param });
}

const by_name: Record<string, [param: string, words: string]> = {
  NoSuchBucket: ['bucket', 'has no such bucket'],
  PermanentRedirect: ['region', 'has this bucket in another region'],
  AuthorizationHeaderMalformed: ['region', 'expects another region'],
  InvalidAccessKeyId: ['access_key_id', 'does not know this access key'],
  SignatureDoesNotMatch: ['secret_access_key', 'does not take this secret'],
  AccessDenied: ['bucket', 'does not let these credentials write to this bucket'],
};

/** Runs a call to the store; its refusal in words that the owner of the bucket can act on. */
async function explained<T>(at: OpenDestination, run: () => Promise<T>): Promise<T> {
  try {
    return await run();
  } catch (error) {
    const { name, $metadata } = error as { name: string; $metadata?: { httpStatusCode?: number } };
    const [param, words] = by_name[name] ?? [];
    const where = `${at.endpoint} (bucket ${at.bucket}, region ${at.region})`;
    if (param !== undefined) throw refused(`${where} ${words}.`, param);
    // A time-out, a fault of the store: another try may succeed.
    const status = $metadata?.httpStatusCode;
    const what = status === undefined ? 'cannot be reached' : `answered ${status} (${name})`;
    throw new AppError('export_target_failed', `${where} ${what}.`);
  }
}
