import { createReadStream } from 'node:fs';
import { rm } from 'node:fs/promises';
import {
  AbortMultipartUploadCommand,
  DeleteObjectCommand,
  GetObjectCommand,
  PutObjectCommand,
  S3Client,
} from '@aws-sdk/client-s3';
import { Upload } from '@aws-sdk/lib-storage';
import { getSignedUrl } from '@aws-sdk/s3-request-presigner';
import { AppError } from '../domain/errors';
import type { OpenDestination } from '../domain/exports/destinations';
import { quietObjectStores } from '../runtime/config';
import { ClosedAddress } from '../runtime/outgoing';
import { draftIn, ownDrafts } from './drafts';
import { deleteAll, endUploads, type StoredFolder } from './s3-folders';
import { agentsFor } from './s3-network';
import type { ExportTarget } from './target';

const URL_SECONDS = 300;
const PART_BYTES = 16 * 1_048_576;
const CONNECT_MS = 5_000;

/** How long a store may be silent, in milliseconds. */
export interface Patience {
  /** Until it has answered a question: a probe, a page of a list, a deletion. */
  ask_ms: number;
  /** Until it has taken and answered a part of a file. */
  send_ms: number;
}

const usual: Patience = { ask_ms: 15_000, send_ms: 60_000 };

const silent = () => undefined;
/** What went wrong is in the error; the client's own lines would stand between those of the log. */
const quiet = { debug: silent, info: silent, warn: silent, error: silent };

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
export function openStore(
  { destination, origins, probe_folder }: Store,
  { ask_ms, send_ms } = usual,
): ExportTarget {
  const { endpoint, region, bucket: Bucket, access_key_id, secret_access_key } = destination;
  requireListed(endpoint, origins);
  const agents = agentsTo(endpoint);
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
      ...agents,
      connectionTimeout: CONNECT_MS,
      // Of a request whole; without the second it is a line in the log and no end.
      requestTimeout: send_ms,
      throwOnRequestTimeout: true,
      // Of an answer that breaks off.
      socketTimeout: send_ms,
      logger: quiet,
    },
    logger: quiet,
  });
  const below = (folder: string, signal: AbortSignal | undefined): StoredFolder => ({
    ...{ client, Bucket, Prefix: `${folder}/` },
    within: () => ({ abortSignal: either(signal, AbortSignal.timeout(ask_ms)) }),
  });
  return {
    check: () => explained(destination, () => probe(below(probe_folder, undefined))),
    draft: (name, attempt) => draftIn(ownDrafts(), name.replaceAll('/', '-'), attempt),
    async publish(draft, name, sha256, signal) {
      const upload = new Upload({
        client: stoppable(client, ask_ms, signal),
        params: { Bucket, Key: name, Body: createReadStream(draft), Metadata: { sha256 } },
        partSize: PART_BYTES,
        queueSize: 2,
        leavePartsOnError: false,
      });
      const stop = () => void upload.abort();
      signal?.addEventListener('abort', stop, { once: true });
      try {
        signal?.throwIfAborted();
        await explained(destination, () => upload.done(), signal);
      } finally {
        signal?.removeEventListener('abort', stop);
      }
    },
    discard: (draft) => rm(draft, { force: true }),
    // Drafts are of this process; what is left in the store is uploads that a killed one began.
    tidy: (folder, signal) =>
      explained(destination, () => endUploads(below(folder, signal)), signal),
    clear: (folder, signal) =>
      explained(destination, () => deleteAll(below(folder, signal)), signal),
    async read(name) {
      const command = new GetObjectCommand({ Bucket, Key: name });
      return { url: await getSignedUrl(client, command, { expiresIn: URL_SECONDS }) };
    },
    close: () => client.destroy(),
  };
}

/** Writes a small file and deletes it. */
async function probe({ client, Bucket, Prefix, within }: StoredFolder): Promise<void> {
  const file = { Bucket, Key: `${Prefix}.svc-probe` };
  const { abortSignal } = within();
  await client.send(new PutObjectCommand({ ...file, Body: 'svc' }), { abortSignal });
  await client.send(new DeleteObjectCommand(file), { abortSignal });
}

function either(signal: AbortSignal | undefined, other: AbortSignal): AbortSignal {
  return signal === undefined ? other : AbortSignal.any([signal, other]);
}

/**
 * The client as an upload uses it: each of its calls ends with the signal, but for the one by which
 * the store forgets the parts that it has.
 */
function stoppable(client: S3Client, ask_ms: number, signal: AbortSignal | undefined): S3Client {
  const send = (command: PutObjectCommand | AbortMultipartUploadCommand) => {
    const is_last = command instanceof AbortMultipartUploadCommand;
    const abortSignal = is_last ? AbortSignal.timeout(ask_ms) : signal;
    // One of the many that it sends; the answer is the upload's own.
    return client.send(command as PutObjectCommand, abortSignal && { abortSignal });
  };
  return Object.create(client, { send: { value: send } });
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

function agentsTo(endpoint: string) {
  try {
    return agentsFor(endpoint);
  } catch (error) {
    if (error instanceof ClosedAddress) throw refused(error.message, 'endpoint');
    throw error;
  }
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
async function explained<T>(
  at: OpenDestination,
  run: () => Promise<T>,
  signal?: AbortSignal,
): Promise<T> {
  try {
    return await run();
  } catch (error) {
    const { name, $metadata } = error as { name: string; $metadata?: { httpStatusCode?: number } };
    const [param, words] = by_name[name] ?? [];
    // It was not the store's fault: its worker stops, or nobody wants it any more.
    if (signal?.aborted && signal.reason?.name !== 'TimeoutError') throw signal.reason;
    if (error instanceof ClosedAddress) throw refused(error.message, 'endpoint');
    const where = `${at.endpoint} (bucket ${at.bucket}, region ${at.region})`;
    if (param !== undefined) throw refused(`${where} ${words}.`, param);
    // A time-out, a fault of the store: another try may succeed.
    const status = $metadata?.httpStatusCode;
    const is_silent = name === 'TimeoutError' || name === 'AbortError';
    const unanswered = is_silent ? 'does not answer in time' : 'cannot be reached';
    const what = status === undefined ? unanswered : `answered ${status} (${name})`;
    throw new AppError('export_target_failed', `${where} ${what}.`);
  }
}
