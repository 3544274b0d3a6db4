import { setTimeout as sleep } from 'node:timers/promises';
import Koa, { type Context } from 'koa';
import { AppError } from '../domain/errors';
import { API_VERSION, conventions } from '../http';
import type { Logger } from '../log';
import { addToLine } from '../request-log';
import { openHolds } from './budget';
import type { Gateway } from './call';
import { checkReload, warm } from './configuration';
import type { ControlPlane } from './control-plane';
import { openEvents } from './events';
import { openHeldCalls } from './held-calls';
import { openIdentities } from './identities';
import { limitUnpriced } from './limit-stages';
import { openLimits } from './limits';
import { routes } from './routes';
import { closeRunning, openRunning } from './running';
import type { Settings } from './settings';
import { openSockets } from './sockets';
import { openSound } from './sound';
import { openTelemetry } from './telemetry';
import { openTokenizer } from './tokenizer';

const POLL_MS = 20;

/** Opens what the gateway works with. */
export function openGateway({
  settings,
  control_plane,
  log,
  sample_ratio,
}: {
  settings: Settings;
  control_plane: ControlPlane;
  log: Logger;
  sample_ratio?: number | undefined;
}): Gateway {
  const tokenizer = openTokenizer();
  const identities = openIdentities();
  const running = openRunning(settings, { identities, control_plane });
  const limits = openLimits(log);
  warm({ tokenizer }, settings);
  limits.use(running.limits);
  const telemetry = openTelemetry({ limits, log, sample_ratio });
  telemetry.use(settings.observability.otlp);
  return {
    ...{ control_plane, log, tokenizer },
    ...{ running, identities, limits, telemetry },
    holds: openHolds(control_plane),
    sound: openSound(),
    events: openEvents(control_plane, log),
    held_calls: openHeldCalls(),
    sockets: openSockets(),
    calls: new Set(),
    is_draining: false,
  };
}

/** The Koa app: the conventions, health, then the table of routes. */
export function createApp(gateway: Gateway): Koa {
  const app = new Koa();
  // What reaches Koa itself is a client's broken connection; without a listener it goes to the console.
  app.on('error', (error) => gateway.log.debug({ err: error }, 'a connection broke'));
  app.use(conventions(gateway.log));
  app.use(async (ctx) => {
    const { path } = ctx;
    // Anthropic's clients read the id under this name.
    ctx.set('request-id', ctx.state.request_id as string);
    if (ctx.method === 'GET' && path === '/svc/health') answerHealth(ctx, gateway);
    else if (ctx.method === 'POST' && path === '/svc/config/reload') await reload(ctx, gateway);
    else if (ctx.method === 'GET' && path === '/readyz') await answerReady(ctx, gateway);
    else await serve(ctx, gateway, path);
  });
  return app;
}

/** Waits until nothing is under way and every settlement is accepted; what outlasts the bound is cut and settled. */
export async function drain(gateway: Gateway): Promise<void> {
  gateway.is_draining = true;
  gateway.held_calls.endAll();
  gateway.sockets.drain();
  const { calls, control_plane } = gateway;
  const end_at = performance.now() + gateway.running.settings.timeouts.drain_ms;
  const stops = new AppError('unavailable', 'This gateway stops.');
  for (const call of calls) if (call.is_listening) call.abort?.(stops);
  while (calls.size > 0 && performance.now() < end_at) await sleep(POLL_MS);
  for (const call of calls) call.abort?.(stops);
  const settled_by = Math.max(end_at, performance.now() + SETTLE_MS);
  // What is cut here settles like any call whose client has gone.
  const cutting = gateway.sockets.close(end_at - performance.now() + SOCKETS_MS);
  while (calls.size + control_plane.unsettled() > 0 && performance.now() < settled_by) {
    await sleep(POLL_MS);
  }
  await cutting;
}

const SETTLE_MS = 5_000;
// For the closing handshake.
const SOCKETS_MS = 1_000;
const EVENTS_MS = 2_000;

/** Lets go of all that a gateway has open, once it has drained. */
export async function closeGateway(gateway: Gateway): Promise<void> {
  gateway.configuration?.close();
  gateway.holds.close();
  await gateway.events.close(EVENTS_MS);
  gateway.tokenizer.close();
  await gateway.telemetry.close();
  await gateway.limits.close();
  gateway.sound.close();
  await closeRunning(gateway.running);
  await gateway.control_plane.close();
}

async function serve(ctx: Context, gateway: Gateway, path: string): Promise<void> {
  const found = routeOf(ctx.method, path);
  if (found === undefined) return;
  addToLine(ctx, { route: found.route.path });
  if (gateway.is_draining) {
    ctx.set('connection', 'close');
    throw new AppError('unavailable', 'This gateway stops; another one answers a repeat.');
  }
  // Priced calls pass it as their first stage.
  if (found.route.path.startsWith('/v1/models')) limitUnpriced(ctx, gateway);
  await found.route.serve(ctx, gateway, found.id);
}

const fixed = new Map(routes.map((route) => [`${route.method} ${route.path}`, route]));
const open_ended = routes.filter(({ path }) => path.endsWith('/:id'));

function routeOf(method: string, path: string) {
  const route = fixed.get(`${method} ${path}`);
  if (route !== undefined) return { route, id: '' };
  for (const candidate of open_ended) {
    const prefix = candidate.path.slice(0, -':id'.length);
    if (candidate.method === method && path.startsWith(prefix) && path.length > prefix.length) {
      return { route: candidate, id: decoded(path.slice(prefix.length)) };
    }
  }
  return undefined;
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function answerHealth(ctx: Context, { running }: Gateway): void {
  ctx.body = { status: 'ok', version: API_VERSION, config_hash: running.version };
}

/** Reads the configuration again. Takes the token of a service of this installation, as gateways have one. */
async function reload(ctx: Context, gateway: Gateway): Promise<void> {
  const { control_plane, configuration, log } = gateway;
  // Tokens may be guessed here too, each guess at the cost of a question to the control plane.
  limitUnpriced(ctx, gateway);
  await checkReload(control_plane, ctx.get('authorization'), log);
  if (configuration === undefined) {
    throw new AppError('unavailable', 'This gateway is starting. Repeat the request shortly.');
  }
  ctx.body = { status: 'reloaded', ...(await configuration.reload()) };
}

async function answerReady(
  ctx: Context,
  { control_plane, is_draining, limits }: Gateway,
): Promise<void> {
  const reason = is_draining
    ? 'draining'
    : (await control_plane.isReady())
      ? undefined
      : 'the control plane does not answer';
  ctx.status = reason === undefined ? 200 : 503;
  const state = reason === undefined ? { status: 'ready' } : { status: 'not ready', reason };
  // Without it calls are still served, as the configuration says.
  const store = limits.storeState();
  ctx.body = store ? { ...state, rate_limit_store: store === 'up' ? 'up' : 'down' } : state;
  if (reason !== undefined) ctx.set('retry-after', '1');
}
