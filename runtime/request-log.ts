import type { Writable } from 'node:stream';
import type { Logger } from './log';

/** A request with its answer, or one frame of a socket. */
interface Served {
  readonly method: string;
  readonly path: string;
  readonly state: Record<string, unknown>;
  readonly res: Pick<Writable, 'closed' | 'writableFinished' | 'once'> & {
    readonly headersSent: boolean;
    statusCode: number;
  };
}

/**
 * Members that services add to a request's line while they serve it, in `ctx.state.logged`: ids and
 * names, never texts.
 */
interface Logged {
  /** `/v1/tokens/:name`; a request of no route shows its path. */
  route?: string;
  org_id?: string | null | undefined;
  key_id?: string | null | undefined;
  user_id?: string | null | undefined;
  /** The code of a refusal. */
  code?: string;
  [more: string]: unknown;
}

// Monitors request these every few seconds.
const unlogged = new Set(['/health', '/readyz', '/svc/health']);
const PATH_LENGTH_MAX = 200;
const key = /svc_(?:[a-z]k|otc)_\w+/g;

/**
 * Calls a function once a request is served: one line at level info when its handler is done and
 * its answer has left, or the client has. The lines hold the members named here and no text of a
 * client but the path of no route, so their logger does without the censor of the others, which
 * costs more than the line.
 */
export function createRequestLog(log: Logger): (ctx: Served) => () => void {
  const lines = log.child({}, { redact: ['key', 'authorization'] });
  return (ctx) => {
    if (!lines.isLevelEnabled('info') || unlogged.has(ctx.path)) return noLine;
    const began = performance.now();
    const write = () => {
      if (ctx.state.is_routine === true && ctx.res.statusCode < 500) return;
      lines.info(lineOf(ctx, performance.now() - began), 'request');
    };
    return () => {
      if (ctx.res.closed) write();
      else ctx.res.once('close', write);
    };
  };
}

/** Adds to the line of a request. */
export function addToLine(ctx: Pick<Served, 'state'>, more: Logged): void {
  ctx.state.logged = Object.assign(ctx.state.logged ?? {}, more);
}

/** A request that comes all the time by itself: it has no line, unless it fails (5xx). */
export function markRoutine(ctx: Pick<Served, 'state'>): void {
  ctx.state.is_routine = true;
}

// nginx's status for a request whose client went before its answer began.
const CLIENT_GONE = 499;

function lineOf({ method, path, state, res }: Served, duration_ms: number) {
  const { route, ...more } = (state.logged ?? {}) as Logged;
  return {
    method,
    ...(route ? { route } : { path: path.slice(0, PATH_LENGTH_MAX).replace(key, '[key]') }),
    status: res.headersSent ? res.statusCode : CLIENT_GONE,
    duration_ms: Math.round(duration_ms * 10) / 10,
    request_id: state.request_id,
    ...more,
    ...(res.writableFinished ? {} : { aborted: true }),
  };
}

function noLine(): void {}
