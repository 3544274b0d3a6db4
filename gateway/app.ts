import type { Context } from 'koa';
import Koa from 'koa';
import { AppError } from '../domain/errors';
import { newId } from '../domain/ids';
import { conventions } from '../runtime/conventions';
import { addToLine } from '../runtime/request-log';
import { API_VERSION } from '../runtime/version';
import { within } from '../runtime/within';
import type { Gateway } from './call/call';
import { bearerOf, type Configuration, checkReload } from './configuration';
import { type Route, routes } from './routes';
import { limitUnpriced } from './stages/limit';
import { missingPrices } from './warnings';

// A probe waits no longer for what it says beside.
const PRICES_MS = 250;

/** The Koa app: the conventions, health, then the table of routes. */
export function createApp(gateway: Gateway, configuration: Pick<Configuration, 'reload'>): Koa {
  const app = new Koa();
  // What reaches Koa itself is a client's broken connection; without a listener it goes to the
  // console.
  app.on('error', (error) => gateway.log.debug({ err: error }, 'a connection broke'));
  app.use((ctx, next) => {
    // By it the ledger knows the call; told with refusals too, whoever makes them.
    const id = newId('req');
    ctx.state.request_id_told = id;
    ctx.set('x-svc-request-id', id);
    return next();
  });
  app.use(conventions(gateway.log));
  app.use(async (ctx) => {
    const { path } = ctx;
    // HEAD is a GET whose body Koa leaves out.
    const method = ctx.method === 'HEAD' ? 'GET' : ctx.method;
    // Anthropic's clients read the id under this name.
    ctx.set('request-id', ctx.state.request_id as string);
    if (method === 'GET' && path === '/svc/health') await answerHealth(ctx, gateway);
    else if (method === 'POST' && path === '/svc/config/reload')
      await reload(ctx, gateway, configuration);
    else if (method === 'GET' && path === '/readyz') await answerReady(ctx, gateway);
    else await serve(ctx, gateway, routeOf(method, path));
  });
  return app;
}

async function serve(ctx: Context, gateway: Gateway, found: Found | undefined): Promise<void> {
  if (found === undefined || (found.route.is_endless && ctx.method === 'HEAD')) return;
  addToLine(ctx, { route: found.route.path });
  if (gateway.is_draining) {
    ctx.set('connection', 'close');
    throw new AppError(
      'unavailable',
      'This gateway stops. Send the request again; another one answers it.',
    );
  }
  // Priced calls pass it as their first stage.
  if (found.route.is_listing) limitUnpriced(ctx, gateway);
  await found.route.serve(ctx, gateway, found.id);
}

const fixed = new Map(routes.map((route) => [`${route.method} ${route.path}`, route]));
const open_ended = routes.filter(({ path }) => path.endsWith('/:id'));

interface Found {
  route: Route;
  id: string;
}

function routeOf(method: string, path: string): Found | undefined {
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

async function answerHealth(ctx: Context, gateway: Gateway): Promise<void> {
  const { snapshot, unsound_costs } = gateway;
  const { version } = snapshot;
  // Kept for a minute; a control plane that is away holds up no probe.
  const unpriced = await within(PRICES_MS, missingPrices(gateway)).catch(() => undefined);
  ctx.body = {
    ...{ status: 'ok', version: API_VERSION, config_hash: version },
    ...(unpriced === undefined || unpriced.length === 0 ? {} : { unpriced_models: unpriced }),
    ...(unsound_costs.size === 0 ? {} : { unsound_costs: Object.fromEntries(unsound_costs) }),
  };
}

/**
 * Reads the configuration again. Takes the token of a service of this installation, as gateways
 * have one.
 */
async function reload(
  ctx: Context,
  gateway: Gateway,
  configuration: Pick<Configuration, 'reload'>,
): Promise<void> {
  const { control_plane, log } = gateway;
  const token = bearerOf(ctx.get('authorization'));
  // Tokens may be guessed here too, each guess at the cost of a question to the control plane. Who
  // has this gateway's own may always lift a limit.
  if (!control_plane.isOwnToken(token)) limitUnpriced(ctx, gateway);
  await checkReload(control_plane, token, log);
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
