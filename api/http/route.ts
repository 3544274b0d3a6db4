import type { IncomingMessage } from 'node:http';
import Router from '@koa/router';
import type { Context } from 'koa';
import getRawBody from 'raw-body';
import type { z } from 'zod';
import { AppError, isAppError } from '../../domain/errors';
import type { Secrets } from '../../domain/secrets';
import { type Db, withRetry } from '../../domain/sql';
import { isKept } from '../../domain/texts';
import type { ProviderOf } from '../../payment-providers/configured';
import type { Logger } from '../../runtime/log';
import { addToLine } from '../../runtime/request-log';
import type { Tracing } from '../../runtime/telemetry/spans';
import { toWire } from '../../runtime/wire';
import type { Temporal } from '../../temporal/client';
import type { Batches } from '../ledger/batches';
import type { Keyring } from '../ledger/keyring';
import type { Waiters } from '../ledger/waiters';
import type { Access, Principal, Sources } from './access';
import type { EventStreams } from './event-streams';
import { type Lane, laneOf, type Pools } from './pools';
import { inTrace } from './tracing';

/** The first argument of every handler: connections, the caller, and the request's label. */
export interface Ctx {
  /** The pool of this route's callers. */
  db: Db;
  pools: Pools;
  keys: Keyring;
  batches: Batches;
  waiters: Waiters;
  temporal: Temporal;
  secrets: Secrets;
  providerOf: ProviderOf;
  event_streams: EventStreams;
  /** True once the process stops. */
  isDraining: () => boolean;
  /** Absent if traces are off. */
  tracing: Tracing | undefined;
  log: Logger;
  principal: Principal;
  request_id: string;
  /** The caller as it is by now, for answers that go on and on; throws once it may not call. */
  principalNow: () => Promise<Principal>;
  /** The status of a good answer of this route. */
  status: number;
  /** Koa's own context: for headers, streams and raw answers only. */
  http: Context;
}

type Method = 'get' | 'post' | 'put' | 'delete';

/** A row of a route table, as it is written. */
interface RouteRow<Input extends z.ZodObject> {
  method: Method;
  /** `/v1/wallets/:id/transactions` */
  path: string;
  access: Access;
  /** Path, query and body together; unknown names are refused. */
  input: Input;
  handler: (ctx: Ctx, input: z.infer<Input>) => unknown;
  /** 200 unless the handler makes something. */
  status?: number;
  /** One sentence for the OpenAPI page, and the answer's schema. */
  summary: string;
  answer?: z.ZodType;
  /** It takes an Idempotency-Key. */
  is_idempotent?: boolean;
  /** The handler reads the body's bytes itself: signatures are over them. */
  is_raw?: boolean;
  /** Another route has taken its place. */
  is_deprecated?: boolean;
  /** It reads for as long as it takes: no time-out ends it. */
  is_long?: boolean;
}

type Defaults = 'status' | 'is_idempotent' | 'is_raw' | 'is_deprecated' | 'is_long';

/** A row of a route table, with its defaults. */
export interface Route
  extends Omit<RouteRow<z.ZodObject>, 'handler' | Defaults>,
    Required<Pick<RouteRow<z.ZodObject>, Defaults>> {
  /**
   * Checks path, query and body; returns the handler's run on them. Throws 422 that names the first
   * wrong field.
   */
  prepare: (given: unknown) => (ctx: Ctx) => unknown;
}

/** Checks access, then path, query and body, then runs the handler, whose result is the answer. */
export function route<Input extends z.ZodObject>({ handler, ...row }: RouteRow<Input>): Route {
  return {
    status: 200,
    is_idempotent: false,
    is_raw: false,
    is_deprecated: false,
    is_long: false,
    ...row,
    prepare(given) {
      const input = parse(row.input, given);
      return (ctx) => handler(ctx, input);
    },
  };
}

export interface Connections extends Pick<Sources, 'jwt'> {
  pools: Pools;
  keyrings: Record<Lane, Keyring>;
  batches: Batches;
  waiters: Waiters;
  temporal: Temporal;
  secrets: Secrets;
  providerOf: ProviderOf;
  event_streams: EventStreams;
  isDraining: () => boolean;
  tracing?: Tracing | undefined;
  log: Logger;
}

/** Mounts route tables. */
export function mount(routes: readonly Route[], connections: Connections): Router {
  const router = new Router({ strict: true, sensitive: true });
  for (const row of routes) {
    router[row.method](row.path, (http: Context) => serve(row, http, connections));
  }
  return router;
}

async function serve(row: Route, http: Context, connections: Connections): Promise<void> {
  addToLine(http, { route: row.path });
  const { pools, keyrings, jwt, batches, waiters, secrets, tracing, log } = connections;
  const lane = laneOf(row);
  const sources = { db: pools[lane], keys: keyrings[lane], jwt };
  const principal = await row.access.check(http, sources);
  addToLine(http, callerOf(principal));
  const hasJson = row.method !== 'get' && !row.is_raw;
  const body = hasJson ? await readJson(http) : {};
  http.state.body = body;
  const run = row.prepare(merge(http.params as Record<string, string>, http.query, body));
  const ctx: Ctx = {
    db: sources.db,
    pools,
    keys: sources.keys,
    batches,
    waiters,
    temporal: inTrace(connections.temporal, http),
    secrets,
    providerOf: connections.providerOf,
    event_streams: connections.event_streams,
    isDraining: connections.isDraining,
    tracing,
    log,
    principal,
    request_id: http.state.request_id,
    principalNow: () => row.access.check(http, sources),
    status: row.status,
    http,
  };
  // A handler writes in one transaction; if PostgreSQL undoes it, the whole handler runs again.
  const once = async () => run(ctx);
  const answer = await (row.method === 'get' ? once() : withRetry(once));
  if (http.respond === false || http.body !== undefined) return;
  http.status = row.status;
  http.body = toWire(answer) ?? {};
}

/** How the log names a caller: by key, or as the person that a JWT stands for. */
function callerOf({ id, org_id, user_id }: Principal) {
  if (id === '') return {};
  return id === user_id ? { org_id, user_id } : { org_id, key_id: id };
}

/**
 * Path, query and body share one namespace; a name given twice is refused, so that none silently
 * wins.
 */
function merge(...parts: Record<string, unknown>[]): Record<string, unknown> {
  const given = new Map<string, unknown>();
  for (const [name, value] of parts.flatMap((part) => Object.entries(part))) {
    // Assigned, this name would change the object's prototype and pass unseen.
    if (name === '__proto__')
      throw new AppError('unknown_field', `${name} is not a field of this request.`, {
        param: name,
      });
    if (given.has(name))
      throw new AppError('unknown_field', `${name} is given twice.`, { param: name });
    if (typeof value === 'string') requireText(name, value);
    given.set(name, value);
  }
  return Object.fromEntries(given);
}

/** Bodies of people's routes are small; a batch of 64 reserves is about 100 kB. */
const BODY_BYTES_MAX = 1_048_576;

/** Reads a JSON object. An absent body is an empty one. */
async function readJson(http: Context): Promise<Record<string, unknown>> {
  const text = await readText(http.req);
  if (text.length === 0) return {};
  const encoding = http.get('content-encoding');
  if (!http.is('json', '+json') || (encoding !== '' && encoding !== 'identity')) {
    throw new AppError(
      'unsupported_media_type',
      'Send the body as application/json, without a content encoding.',
    );
  }
  let body: unknown;
  try {
    // Only an escape can contain a character that PostgreSQL cannot hold, so other bodies are not
    // walked.
    body = text.includes('\\u') ? JSON.parse(text, requireTextIn) : JSON.parse(text);
  } catch (error) {
    if (isAppError(error)) throw error;
    throw new AppError('invalid_json', 'The body is not JSON.');
  }
  if (typeof body !== 'object' || body === null || Array.isArray(body)) {
    throw new AppError('invalid_json', 'The body must be a JSON object.');
  }
  return body as Record<string, unknown>;
}

function requireTextIn(param: string, value: unknown): unknown {
  requireText(param, param);
  if (typeof value === 'string') requireText(param, value);
  return value;
}

function requireText(param: string, value: string): void {
  if (isKept(value)) return;
  throw new AppError('invalid_field', `${param} holds a character that no text may have.`, {
    param,
  });
}

async function readText(req: IncomingMessage): Promise<string> {
  return (await readBytes(req)).toString('utf8');
}

/** A request's body as it came, 1 MB at most. */
export async function readBytes(req: IncomingMessage): Promise<Buffer> {
  try {
    return await getRawBody(req, { limit: BODY_BYTES_MAX });
  } catch (error) {
    if ((error as { type?: string }).type === 'entity.too.large') {
      // The rest is read and dropped, so that the client gets the answer and its connection stays
      // in step.
      req.resume();
      throw new AppError('payload_too_large', `The body may have at most ${BODY_BYTES_MAX} bytes.`);
    }
    throw new AppError('invalid_request', 'The body could not be read to its end.');
  }
}

/** Parses or throws 422 naming the first wrong field. */
export function parse<Schema extends z.ZodType>(schema: Schema, given: unknown): z.infer<Schema> {
  const parsed = schema.safeParse(given);
  if (parsed.success) return parsed.data;
  const { issues } = parsed.error;
  // A misspelt name is the cause, the field that is missing its effect.
  const issue = issues.find(({ code }) => code === 'unrecognized_keys') ?? issues[0];
  if (issue?.code === 'unrecognized_keys') {
    const param = [...issue.path, issue.keys[0]].join('.');
    throw new AppError('unknown_field', `${param} is not a field of this request.`, { param });
  }
  const param = issue?.path.join('.') ?? '';
  throw new AppError('invalid_field', `${param} ${issue?.message ?? 'is not valid'}.`, { param });
}
