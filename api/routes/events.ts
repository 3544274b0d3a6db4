import { z } from 'zod';
import { AppError, isAppError } from '../../domain/errors';
import { nameOf, newestPlace, placeOf } from '../../domain/event-places';
import * as events from '../../domain/events';
import { isPlatformAdmin, may } from '../../domain/people/rights';
import { teamsLedBy } from '../../domain/people/team-rights';
import { cannotWorkNow } from '../../domain/sql';
import { toWire } from '../../runtime/wire';
import * as answers from '../answers/events';
import { type Access, actingOrg, anyPermission, member, type Principal } from '../http/access';
import type { Follower, Own } from '../http/event-streams';
import { id, instant } from '../http/fields';
import { type Ctx, route } from '../http/route';

const kind = z.enum(events.types);
const listed = z.strictObject({
  org_id: id.optional(),
  type: kind.optional(),
  action: id.optional(),
  agent_id: id.optional(),
  request_id: id.optional(),
  since: instant.optional(),
  until: instant.optional(),
  limit: z.coerce.number<number>().int().min(1).max(200).default(50),
  cursor: id.optional(),
});
const shown = z.strictObject({ id: id.describe('Id of an event.'), org_id: id.optional() });
const followed = z.strictObject({
  org_id: id.optional(),
  type: kind.optional(),
  action: id.optional(),
});

const seeing: Access = anyPermission('events:read', 'org:billing');

export const eventRoutes = [
  route({
    method: 'get',
    path: '/v1/events',
    access: seeing,
    input: listed,
    handler: list,
    summary: 'What happened, newest first. Without events:read only what concerns money.',
    answer: answers.events,
  }),
  // Before the route with an id, which would take this path too.
  route({
    method: 'get',
    path: '/v1/events/stream',
    access: member,
    input: followed,
    handler: follow,
    summary:
      'What happens, as server-sent events; Last-Event-ID resumes where a reader was. A member without a permission follows their own tickets, payments and money that is moved by hand, and tickets and money of teams that they lead.',
  }),
  route({
    method: 'get',
    path: '/v1/events/:id',
    access: seeing,
    input: shown,
    handler: show,
    summary: 'One event.',
    answer: answers.event,
  }),
];

async function filterOf(
  { db, principal }: Pick<Ctx, 'db' | 'principal'>,
  { org_id, ...asked }: { org_id?: string | undefined; type?: string | undefined },
): Promise<events.Filter> {
  const is_platform = org_id === events.PLATFORM_STREAM && isPlatformAdmin(principal);
  const acting = is_platform ? org_id : await actingOrg(db, principal, org_id);
  return { org_id: acting, visible: visibleTo(principal), ...asked };
}

/** A stream's filter: a person without a permission follows what is their own or their teams'. */
async function followedBy(
  ctx: Pick<Ctx, 'db' | 'principal'>,
  asked: z.infer<typeof followed>,
): Promise<events.Filter & { own: Own | undefined }> {
  const filter = await filterOf(ctx, asked);
  const { scopes, user_id } = ctx.principal;
  const may_see = ['events:read', 'org:billing', 'platform:admin'] as const;
  if (may_see.some((scope) => scopes.includes(scope))) return { ...filter, own: undefined };
  if (user_id === null)
    throw new AppError(
      'permission_denied',
      'This needs one of the permissions events:read, org:billing, or a key that stands for a person.',
    );
  const led_teams = await teamsLedBy(ctx.db, { org_id: filter.org_id, user_id });
  return { ...filter, visible: events.memberTypes, own: { user_id, led_teams } };
}

/** The types of events that a caller may read; none without a permission for it. */
export function visibleTo(principal: Principal): readonly string[] {
  const { scopes } = principal;
  if (may(principal, 'events:read')) return events.types;
  return scopes.includes('org:billing') ? events.billingTypes : [];
}

function shownTo(principal: Principal, event: events.Event): events.Event {
  return isPlatformAdmin(principal) ? event : events.forOrganization(event);
}

async function list(ctx: Ctx, { limit, cursor, ...asked }: z.infer<typeof listed>) {
  if (cursor !== undefined) events.timeOfId(cursor, 'cursor');
  const page = await events.list(ctx.db, await filterOf(ctx, asked), { limit, cursor });
  // Pages follow a cursor, and nothing counts the events of 90 days; the rest is as in every list.
  const found = page.events.map((event) => shownTo(ctx.principal, event));
  return { ...page, events: found, has_more: page.next_cursor !== null };
}

async function show(ctx: Ctx, { id: event_id, org_id }: z.infer<typeof shown>) {
  const { db, principal } = ctx;
  // An id is enough for those who may read any.
  if (org_id === undefined && isPlatformAdmin(principal))
    return events.get(db, event_id, { org_id: null, visible: visibleTo(principal) });
  return shownTo(principal, await events.get(db, event_id, await filterOf(ctx, { org_id })));
}

const RECONNECT_MS = 2_000;
/**
 * Lines without an event keep proxies from closing a quiet stream, tell how far it has read, and
 * look what its follower may still see.
 */
const HEARTBEAT_MS = 5_000;
/** A follower that reads nothing for so long is disconnected. */
const IDLE_MS = 60_000;

/**
 * Writes events as they become visible, until the follower goes, its credential ends or this
 * process stops.
 */
async function follow(ctx: Ctx, asked: z.infer<typeof followed>): Promise<void> {
  const { db, http, principal } = ctx;
  const filter = await followedBy(ctx, asked);
  const last_seen = http.get('last-event-id');
  const resumed = last_seen === '' ? undefined : await placeOf(db, last_seen, filter.org_id);
  if (last_seen !== '' && resumed === undefined)
    throw new AppError(
      'not_found',
      'What Last-Event-ID names is not kept any more: leave it out.',
      {
        param: 'Last-Event-ID',
      },
    );
  if (http.method === 'HEAD') {
    http.body = '';
    http.set(streamHeaders);
    return;
  }
  const place = resumed ?? (await newestPlace(db));
  const { res } = http;
  if (res.destroyed) return;
  const giveBack = ctx.event_streams.takePlace(filter.org_id, principal.id);
  http.respond = false;
  // From here on nobody asks but this stream itself.
  http.state.is_unattended = true;
  res.writeHead(200, streamHeaders);
  // A stream that has shown nothing yet resumes here too.
  res.write(`retry: ${RECONNECT_MS}\nid: ${nameOf(place)}\n\n`);
  // A follower that disconnects is no error of ours.
  res.on('error', () => undefined);
  const { org_id, action, own } = filter;
  const types = typesOf(filter);
  const follower: Follower = {
    sees_costs: isPlatformAdmin(principal),
    org_id,
    types,
    action,
    own,
    place,
    show,
    end,
  };
  const leave = ctx.event_streams.follow(follower);
  let timer = beatLater();

  // The next beat is set once this one is through, however long that takes.
  function beatLater(): NodeJS.Timeout {
    return setTimeout(async () => {
      await beat(ctx, follower, asked);
      if (!res.writableEnded && !res.destroyed) timer = beatLater();
    }, HEARTBEAT_MS).unref();
  }

  function show(page: readonly events.Event[]): true | Promise<boolean> {
    return showOn(res, follower.sees_costs ? page : page.map(events.forOrganization));
  }

  function end(error?: unknown): void {
    if (error !== undefined && !res.destroyed) http.app.emit('error', error, http);
    clearTimeout(timer);
    leave();
    res.end();
  }
  res.once('close', () => {
    end();
    giveBack();
  });
}

const streamHeaders = {
  'content-type': 'text/event-stream',
  'cache-control': 'no-store',
  'x-accel-buffering': 'no',
};

function typesOf({ visible, type }: events.Filter): ReadonlySet<string> {
  return new Set(visible.filter((kind) => type === undefined || kind === type));
}

/** Says that the stream lives, and shows from now on what its follower may see by now. */
async function beat(ctx: Ctx, follower: Follower, asked: z.infer<typeof followed>): Promise<void> {
  try {
    const principal = await ctx.principalNow();
    const filter = await followedBy({ db: ctx.db, principal }, asked);
    follower.types = typesOf(filter);
    follower.own = filter.own;
    follower.sees_costs = isPlatformAdmin(principal);
    if (filter.org_id !== follower.org_id) follower.end();
    else ctx.http.res.write(`: still here\nid: ${nameOf(follower.place)}\n\n`);
  } catch (error) {
    // While nobody can be asked, the follower keeps what it was given.
    if (isAppError(error) ? error.status >= 500 : cannotWorkNow(error)) return;
    follower.end(isAppError(error) ? undefined : error);
  }
}

function showOn(res: Ctx['http']['res'], page: readonly events.Event[]): true | Promise<boolean> {
  if (res.destroyed) return true;
  return res.write(page.map(frame).join('')) || drained(res);
}

function frame(event: events.Event): string {
  return `id: ${event.id}\nevent: ${event.type}\ndata: ${JSON.stringify(toWire(event))}\n\n`;
}

/** True once the socket has drained; false if the follower has gone or reads nothing. */
function drained(res: Ctx['http']['res']): Promise<boolean> {
  return new Promise((resolve) => {
    if (res.destroyed) return resolve(false);
    const timer = setTimeout(() => {
      res.destroy();
      resolve(false);
    }, IDLE_MS);
    const end = (is_drained: boolean) => () => {
      clearTimeout(timer);
      resolve(is_drained);
    };
    res.once('drain', end(true));
    res.once('close', end(false));
  });
}
