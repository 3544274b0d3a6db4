import type { X509Certificate } from 'node:crypto';
import Router from '@koa/router';
import type { Context } from 'koa';
import type { z } from 'zod';
import { isAppError } from '../../domain/errors';
import type { Secrets } from '../../domain/secrets';
import { type Db, withRetry } from '../../domain/sql';
import type { TargetOf } from '../../exports/open';
import type { Reach } from '../../notices/network';
import type { ProviderOf } from '../../payment-providers/configured';
import type { Logger } from '../../runtime/log';
import type { Networks } from '../../runtime/networks';
import { addToLine } from '../../runtime/request-log';
import type { Tracing } from '../../runtime/telemetry/spans';
import { toWire } from '../../runtime/wire';
import type { Temporal } from '../../temporal/client';
import type { Batches } from '../ledger/batches';
import type { Keyring } from '../ledger/keyring';
import type { Waiters } from '../ledger/waiters';
import { type Access, type Principal, type Sources, whoWasDenied } from './access';
import { inName } from './acting';
import { boundsOf, readJson } from './body';
import type { createBuckets } from './buckets';
import type { ConfigWatch } from './config-watch';
import type { EventStreams } from './event-streams';
import type { IdTokens } from './id-tokens';
import { merge, parse } from './parse';
import { type PoolName, type Pools, poolOf } from './pools';
import type { RefusedRequests } from './refused';
import type { Shares } from './shares';
import { inTrace } from './tracing';

/** Where notices may go; mail only if the operator has a mail server. */
export interface NoticeReach extends Reach {
  has_mail: boolean;
}

/** What the application makes once, for all calls. */
interface Services {
  pools: Pools;
  batches: Batches;
  waiters: Waiters;
  temporal: Temporal;
  secrets: Secrets;
  providerOf: ProviderOf;
  /** Hosts where payment providers may be, beside their own: `PAYMENT_HOSTS`. */
  payment_hosts: readonly string[];
  /** Where files of exports are. */
  exportTargetOf: TargetOf;
  /** The object stores that exports may go to: EXPORT_S3_ORIGINS. */
  s3_origins: readonly string[];
  export_bytes_max?: number | undefined;
  notice_reach: NoticeReach;
  event_streams: EventStreams;
  id_tokens: IdTokens;
  /** The proxies whose X-Forwarded-For is believed: TRUSTED_PROXIES. */
  trusted_proxies: Networks;
  config_watch: ConfigWatch;
  /** True once the process stops. */
  isDraining: () => boolean;
  /** Absent if traces are off. */
  tracing?: Tracing | undefined;
  log: Logger;
}

/** The first argument of every handler: services, the caller, and the request's label. */
export interface Ctx extends Services {
  /** The pool of this route's callers, as far as their organization's share of it goes. */
  db: Db;
  keys: Keyring;
  principal: Principal;
  request_id: string;
  /** The caller as it is by now, for answers that go on and on; throws once it may not call. */
  principalNow: () => Promise<Principal>;
  /** The status of a good answer of this route. */
  status: number;
  /** Koa's own context: for headers, streams and raw answers only. */
  http: Context;
}

type Method = 'get' | 'post' | 'put' | 'patch' | 'delete';

/** A row of a route table, as it is written. */
interface RouteRow<Input extends z.ZodObject> {
  method: Method;
  /** `/v1/wallets/:id/transactions` */
  path: string;
  access: Access;
  /** Path, query and body together; unknown names are refused. */
  input: Input;
  handler: (ctx: Ctx, input: z.infer<Input>) => unknown;
  /** Under which names the input has names of the path, if the body has such members too. */
  path_names?: Readonly<Record<string, string>>;
  /** 200 unless the handler makes something. */
  status?: number;
  /** One sentence for the OpenAPI page, and the answer's schema. */
  summary: string;
  answer?: z.ZodType;
  /** It takes an Idempotency-Key. */
  is_idempotent?: boolean;
  /**
   * The handler changes something in one transaction of the caller's name: an audit event says who.
   * With `is_run_once` it makes such transactions itself.
   */
  is_recorded?: boolean;
  /** The handler reads the body's bytes itself: signatures are over them. It runs once. */
  is_raw?: boolean;
  /**
   * The handler runs once and repeats its own transactions: what it asks others for is there once.
   */
  is_run_once?: boolean;
  /** Another route has taken its place. */
  is_deprecated?: boolean;
  /** It reads for as long as it takes: no time-out ends it. */
  is_long?: boolean;
  /** Its body may have 1 MB, as no other of people may. */
  is_large?: boolean;
  /** Its body may have 8 MB. */
  is_huge?: boolean;
  /** How many members and items its body may have, if fewer than its size allows. */
  members_max?: number;
  /** Looks at the caller before the body is read: whom it refuses costs no more. */
  before_body?: (ctx: Ctx) => unknown;
}

type Defaults = 'status' | 'path_names' | Extract<keyof RouteRow<z.ZodObject>, `is_${string}`>;

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
    is_recorded: false,
    is_raw: false,
    is_run_once: false,
    is_deprecated: false,
    is_long: false,
    is_large: false,
    is_huge: false,
    path_names: {},
    ...row,
    prepare(given) {
      const input = parse(row.input, given);
      return (ctx) => handler(ctx, input);
    },
  };
}

/** The services, and what stands before a handler. */
export interface Connections extends Services, Pick<Sources, 'jwt'> {
  keyrings: Record<PoolName, Keyring>;
  shares: Record<Exclude<PoolName, 'machine'>, Shares>;
  buckets: ReturnType<typeof createBuckets>;
  refused_requests: RefusedRequests;
  /** Who may sign the certificates of webhooks, beside public authorities: `PAYMENT_CA_FILES`. */
  payment_authorities?: readonly X509Certificate[] | undefined;
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
  const { pools, keyrings, jwt, buckets, shares } = connections;
  const pool = poolOf(row);
  const sources = { db: pools[pool], keys: keyrings[pool], jwt };
  const remembered = row.access.remembered?.(http, sources);
  const principal =
    remembered ??
    (await row.access.check(http, sources).catch((error) => {
      throw refused(error, row, http, connections);
    }));
  addToLine(http, callerOf(principal));
  const caller = { pool, sources, principal };
  if (pool === 'machine') return answer(row, http, connections, { ...caller, db: sources.db });
  if (principal.id !== '') buckets.take(principal.id);
  const share = shares[pool].take(principal);
  try {
    await answer(row, http, connections, { ...caller, db: share.db });
  } catch (error) {
    throw refused(error, row, http, connections, principal);
  } finally {
    share.end();
  }
}

/** Tells of a refusal for want of a right, and gives it back. */
function refused(
  error: unknown,
  { method, path }: Route,
  http: Context,
  { refused_requests }: Connections,
  known?: Principal,
): unknown {
  if (!isAppError(error) || error.code !== 'permission_denied') return error;
  const principal = known ?? whoWasDenied(error);
  const { request_id } = http.state;
  if (principal?.id) refused_requests.tell({ principal, method, path, request_id });
  return error;
}

/** Whose request it is, and with which connections it is answered. */
interface Caller {
  pool: PoolName;
  sources: Sources;
  principal: Principal;
  db: Db;
}

async function answer(
  row: Route,
  http: Context,
  connections: Connections,
  { pool, sources, principal, db }: Caller,
): Promise<void> {
  const { pools, batches, waiters, secrets, tracing, log } = connections;
  const ctx: Ctx = {
    db,
    pools,
    keys: sources.keys,
    batches,
    waiters,
    temporal: inTrace(connections.temporal, http),
    secrets,
    providerOf: connections.providerOf,
    payment_hosts: connections.payment_hosts,
    exportTargetOf: connections.exportTargetOf,
    s3_origins: connections.s3_origins,
    export_bytes_max: connections.export_bytes_max,
    notice_reach: connections.notice_reach,
    event_streams: connections.event_streams,
    id_tokens: connections.id_tokens,
    trusted_proxies: connections.trusted_proxies,
    config_watch: connections.config_watch,
    isDraining: connections.isDraining,
    tracing,
    log,
    principal,
    request_id: http.state.request_id,
    principalNow: () => row.access.check(http, sources),
    status: row.status,
    http,
  };
  await row.before_body?.(ctx);
  const hasJson = row.method !== 'get' && !row.is_raw;
  const body = hasJson ? await readJson(http, boundsOf(row, pool === 'machine')) : {};
  http.state.body = body;
  const run = row.prepare(merge(inPath(row, http), http.query, body));
  // Most handlers write in one transaction: if PostgreSQL undoes it, the whole handler runs again.
  const isWrapped = row.is_recorded && !row.is_run_once;
  const once = async () =>
    isWrapped ? inName(ctx, async (trx) => run({ ...ctx, db: trx })) : run(ctx);
  const isRunOnce = row.method === 'get' || row.is_raw || row.is_run_once;
  const result = await (isRunOnce ? once() : withRetry(once));
  if (http.respond === false || http.body !== undefined) return;
  http.status = row.status;
  http.body = toWire(result) ?? {};
}

/** The names of the path, as the input knows them. */
function inPath({ path_names }: Route, http: Context): Record<string, string> {
  const entries = Object.entries(http.params as Record<string, string>);
  return Object.fromEntries(entries.map(([name, value]) => [path_names[name] ?? name, value]));
}

/** How the log names a caller: by key, or as the person that a JWT stands for. */
function callerOf({ id, org_id, user_id }: Principal) {
  if (id === '') return {};
  return id === user_id ? { org_id, user_id } : { org_id, key_id: id };
}
