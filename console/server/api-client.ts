import type { IncomingHttpHeaders } from 'node:http';
import type { Readable } from 'node:stream';
import { Pool } from 'undici';
import { AppError } from '../../domain/errors';
import { API_VERSION, rowOf } from '../../runtime/version';

const CONNECTIONS = 128;
const ANSWER_MS = 60_000;
const LOOK_MS = 5_000;
/** How long an API that does not fit is taken for one that does not. */
const UNFIT_MS = 5_000;

export interface Question {
  method: string;
  /** With its query. */
  path: string;
  headers: Record<string, string>;
  body?: string | undefined;
  /** An answer that goes on and on. */
  is_stream?: boolean;
  signal?: AbortSignal;
}

export interface Answer {
  status: number;
  headers: IncomingHttpHeaders;
  body: Readable;
}

/** The API behind the console. */
export type ApiClient = ReturnType<typeof createApiClient>;

/** @param api_url an origin: CONSOLE_API_URL. */
export function createApiClient(api_url: string) {
  const pool = new Pool(new URL(api_url).origin, {
    connections: CONNECTIONS,
    headersTimeout: ANSWER_MS,
    bodyTimeout: ANSWER_MS,
    keepAliveTimeout: 30_000,
  });
  // Streams and files take as long as their readers do, so they take no connection from the rest.
  const streams = new Pool(new URL(api_url).origin, {
    connections: null,
    headersTimeout: ANSWER_MS,
    bodyTimeout: 0,
    keepAliveTimeout: 30_000,
  });
  let checked: { version: string; at: number } | undefined;

  async function send(question: Question): Promise<Answer> {
    const { method, path, headers, body, signal, is_stream } = question;
    try {
      const answer = await (is_stream ? streams : pool).request({
        method: method as 'GET',
        path,
        headers: { 'x-svc-console-version': API_VERSION, ...headers },
        body: body ?? null,
        ...(signal ? { signal } : {}),
      });
      const said = answer.headers['x-svc-api-version'];
      if (typeof said === 'string') checked = { version: said, at: performance.now() };
      return { status: answer.statusCode, headers: answer.headers, body: answer.body };
    } catch (error) {
      if (signal?.aborted) throw error;
      throw new AppError('unavailable', 'The API cannot be reached at present.', {
        retry_after: 2,
      });
    }
  }

  return {
    send,
    /** Asks in JSON; an answer of 400 and more is thrown as the refusal that it is. */
    async ask(question: Question): Promise<Record<string, unknown>> {
      const answer = await send(question);
      const said = (await jsonOf(answer)) as Record<string, unknown>;
      if (answer.status < 400) return said;
      throw refusalOf(answer, said);
    },
    /**
     * Throws `version_not_supported` before an API that is older than this console, or newer than
     * the next one. Every answer says which API gave it, so a fitting one is asked once.
     */
    async requireFit(): Promise<void> {
      const is_fit = checked !== undefined && fits(checked.version);
      if (is_fit) return;
      if (checked === undefined || performance.now() - checked.at > UNFIT_MS)
        checked = { version: await versionOf(send), at: performance.now() };
      if (fits(checked.version)) return;
      const upgrade = olderOf(checked.version);
      const words = upgrade === 'api' ? 'upgrade the API first' : 'upgrade the console';
      throw new AppError(
        'version_not_supported',
        `This console is ${API_VERSION} and the API ${checked.version}: ${words}.`,
        { extra: { api_version: checked.version, console_version: API_VERSION, upgrade } },
      );
    },
    /** Throws 503 unless the API is ready and fits. */
    async requireReady(): Promise<void> {
      await requireReadyApi(send);
      await this.requireFit();
    },
    destroy: () => Promise.all([pool.destroy(), streams.destroy()]),
  };
}

async function requireReadyApi(send: (question: Question) => Promise<Answer>): Promise<void> {
  const signal = AbortSignal.timeout(LOOK_MS);
  const answer = await send({ method: 'GET', path: '/readyz', headers: {}, signal });
  await jsonOf(answer);
  if (answer.status === 200) return;
  throw new AppError('unavailable', 'The API is not ready at present.', { retry_after: 2 });
}

/** The version of the API that answers now. */
async function versionOf(send: (question: Question) => Promise<Answer>): Promise<string> {
  const signal = AbortSignal.timeout(LOOK_MS);
  const answer = await send({ method: 'GET', path: '/health', headers: {}, signal });
  const said = (await jsonOf(answer)) as { version?: unknown };
  return typeof said.version === 'string' ? said.version : '';
}

/** True if an API of this version serves this console: of its own minor version, or a newer one. */
export function fits(version: string): boolean {
  const row = rowOf(version);
  const own = /^\d+\.\d+/.exec(API_VERSION)?.[0] ?? '';
  if (row === undefined) return isNext(version);
  return (row.consoles as readonly string[]).includes(own);
}

function isNext(version: string): boolean {
  const [major = 0, minor = 0] = version.split('.').map(Number);
  const [own_major = 0, own_minor = 0] = API_VERSION.split('.').map(Number);
  return major === own_major && minor === own_minor + 1;
}

/** Which of the two is to be upgraded if they do not fit; an API without a version is no newer. */
function olderOf(version: string): 'api' | 'console' {
  const [major = 0, minor = 0] = version.split('.').map(Number);
  const [own_major = 0, own_minor = 0] = API_VERSION.split('.').map(Number);
  const is_newer = major > own_major || (major === own_major && minor > own_minor);
  return is_newer ? 'console' : 'api';
}

async function jsonOf({ body }: Answer): Promise<unknown> {
  const parts: Buffer[] = [];
  for await (const part of body) parts.push(part as Buffer);
  try {
    return JSON.parse(Buffer.concat(parts).toString('utf8') || '{}');
  } catch {
    throw new AppError('unavailable', 'The API gave an answer that is none of its own.', {
      retry_after: 2,
    });
  }
}

interface Said {
  code?: string;
  message?: string;
  param?: string;
  organizations?: unknown;
}

/** The API's refusal; 503 for the error of what stands before it, which has another form. */
function refusalOf({ status, headers }: Answer, said: Record<string, unknown>): AppError {
  const { error } = said as { error?: Said };
  if (typeof error?.code !== 'string')
    return new AppError(
      'unavailable',
      'What answered is not the API: check CONSOLE_API_URL and the proxy before it.',
      { retry_after: 2 },
    );
  const after = Number(headers['retry-after']);
  return new AppError(error.code as 'unavailable', error.message ?? '', {
    status,
    ...(error.param ? { param: error.param } : {}),
    // What whoever signs in is to choose from.
    ...(error.organizations ? { extra: { organizations: error.organizations } } : {}),
    ...(Number.isFinite(after) && after > 0 ? { retry_after: after } : {}),
  });
}
