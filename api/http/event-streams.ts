import { setTimeout as sleep } from 'node:timers/promises';
import { after, newestPlace, type Place } from '../../domain/event-places';
import { type Event, teamTypes } from '../../domain/events';
import { cannotWorkNow, type Db } from '../../domain/sql';
import { createEventPlaces } from './event-places';

const POLL_MS = 500;
/** How old the newest place may be that the streams of all organizations share. */
const NEWEST_MS = 200;
/** How many events one look reads, and how many of them it shows. */
const SCAN = 2_000;
const PAGE = 200;
/** Looks of all organizations that are under way at one time. */
const LOOKS_MAX = 2;
/** Streams that catch up leave four fifths of the time to others. */
const PAUSE_MS_MIN = 20;
const PAUSE_PER_LOOK = 4;

/**
 * What a person without a permission sees: their own, and of teams that they lead the tickets and
 * what moves to and from the team's wallet.
 */
export interface Own {
  user_id: string;
  led_teams: readonly string[];
}

/** One open stream. */
export interface Follower {
  org_id: string;
  /** What it may see and has asked for. */
  types: ReadonlySet<string>;
  action: string | undefined;
  /** Whose events it shows; undefined sees all of these types. */
  own: Own | undefined;
  /** It is shown what calls cost the platform at its providers. */
  sees_costs: boolean;
  /** Everything up to here is read. */
  place: Place;
  /** Shows events. Resolves once it takes more; false if it has gone. */
  show: (page: readonly Event[]) => true | Promise<boolean>;
  /** Ends it; with an error if that is why. */
  end: (error?: unknown) => void;
}

/** The event streams that this API has open. */
export type EventStreams = ReturnType<typeof createEventStreams>;

/** Who follows in one organization. */
interface Feed {
  org_id: string;
  followers: Set<Follower>;
  /** Those that take no more yet. */
  busy: Set<Follower>;
  /** Those whose last step did not bring them to the next ones. */
  far: Set<Follower>;
}

/**
 * One poller an organization, whose streams share what it reads: a new event is read once, however
 * many streams there are and whatever they show. Streams that have read equally far are read for
 * together; one that resumes farther back catches up in steps of its own until it is among them.
 */
export function createEventStreams(db: Db, isDraining: () => boolean) {
  const feeds = new Map<string, Feed>();
  const places = createEventPlaces();
  const newest = createNewest(db);
  const inTurn = createTurns(LOOKS_MAX);

  async function run(feed: Feed): Promise<void> {
    while (feed.followers.size > 0) {
      if (isDraining()) for (const follower of feed.followers) follower.end();
      const started = performance.now();
      const left = await lookOf(feed);
      const took_ms = performance.now() - started;
      await sleep(left ? Math.max(PAUSE_MS_MIN, took_ms * PAUSE_PER_LOOK) : POLL_MS);
    }
    feeds.delete(feed.org_id);
  }

  /** True if some followers have more to read already. */
  async function lookOf(feed: Feed): Promise<boolean> {
    try {
      return await inTurn(async () => look(db, feed, await newest()));
    } catch (error) {
      // Followers stay while the database is away; anything else is a bug, and ends them.
      if (!cannotWorkNow(error)) for (const follower of feed.followers) follower.end(error);
      return false;
    }
  }

  return {
    /** Takes a place for a stream, or throws. The function that it returns gives it back. */
    takePlace: places.take,
    /** Shows all events after a follower's place as they become visible; returns how it leaves. */
    follow(follower: Follower): () => void {
      const { org_id } = follower;
      const feed = feeds.get(org_id) ?? {
        org_id,
        followers: new Set(),
        busy: new Set(),
        far: new Set(),
      };
      feed.followers.add(follower);
      if (feeds.get(org_id) !== feed) {
        feeds.set(org_id, feed);
        // Later, so that a process that stops ends it only once its caller can.
        queueMicrotask(() => void run(feed));
      }
      return () => {
        feed.followers.delete(follower);
        feed.far.delete(follower);
      };
    },
  };
}

/**
 * One step for all who have something to read, those who have read farthest first: each reads as
 * far as the next have come and goes with them from there. Nobody waits for one who resumes far
 * back. Those who do, whom a step does not bring there, wait for the farthest and then share its
 * steps.
 */
async function look(db: Db, feed: Feed, newest: Place): Promise<boolean> {
  const groups = groupsBehind(feed, newest).sort(byPlace);
  const farthest = groups.find((group) => isFar(feed, group));
  let until = newest;
  for (const [n, group] of groups.reverse().entries()) {
    const takes_step = n === 0 || group === farthest || !isFar(feed, group);
    until = takes_step ? await read(db, feed, group, until) : placeOf(group);
  }
  return groupsBehind(feed, newest).length > 0;
}

function isFar({ far }: Feed, group: Follower[]): boolean {
  return group.some((follower) => far.has(follower));
}

function placeOf([first]: Follower[]): Place {
  return (first as Follower).place;
}

/** The followers that have something to read, by how far they have read. */
function groupsBehind(feed: Feed, until: Place): Follower[][] {
  const groups = new Map<string, Follower[]>();
  for (const follower of feed.followers) {
    const { transaction_id, id } = follower.place;
    if (feed.busy.has(follower) || BigInt(transaction_id) >= BigInt(until.transaction_id)) continue;
    const group = groups.get(`${transaction_id} ${id}`);
    if (group) group.push(follower);
    else groups.set(`${transaction_id} ${id}`, [follower]);
  }
  return [...groups.values()];
}

function byPlace(a: Follower[], b: Follower[]): number {
  const [one, other] = [placeOf(a), placeOf(b)];
  const apart = BigInt(one.transaction_id) - BigInt(other.transaction_id);
  if (apart !== 0n) return apart < 0n ? -1 : 1;
  return one.id < other.id ? -1 : 1;
}

/** Shows a group what comes next; up to where it has read then. */
async function read(db: Db, feed: Feed, group: Follower[], until: Place): Promise<Place> {
  const types = new Set(group.flatMap((follower) => [...follower.types]));
  const wanted = { org_id: feed.org_id, types: [...types], scan: SCAN, limit: PAGE };
  const page = await after(db, wanted, placeOf(group), until);
  for (const follower of group) {
    // It may have gone meanwhile.
    if (!feed.followers.has(follower)) continue;
    follower.place = page.place;
    if (page.place === until) feed.far.delete(follower);
    else feed.far.add(follower);
    const shown = page.events.filter(
      (event) =>
        follower.types.has(event.type) &&
        (follower.action === undefined || follower.action === event.action) &&
        (follower.own === undefined || isOf(follower.own, event)),
    );
    const taken = shown.length === 0 || follower.show(shown);
    if (taken !== true) waitFor(feed, follower, taken);
  }
  return page.place;
}

function isOf({ user_id, led_teams }: Own, { type, payload }: Event): boolean {
  if (payload.user_id === user_id) return true;
  return teamTypes.includes(type) && led_teams.some((id) => id === payload.team_id);
}

function waitFor({ busy }: Feed, follower: Follower, taken: Promise<boolean>): void {
  busy.add(follower);
  void taken.then((takes_more) => {
    busy.delete(follower);
    if (!takes_more) follower.end();
  });
}

/** The newest place, asked for once for all who ask at about one time. */
function createNewest(db: Db): () => Promise<Place> {
  let asked: { at: number; place: Promise<Place> } | undefined;
  return () => {
    if (asked === undefined || performance.now() - asked.at > NEWEST_MS)
      asked = { at: performance.now(), place: newestPlace(db) };
    return asked.place;
  };
}

/** Runs at most so many at one time, in the order in which they came. */
function createTurns(most: number) {
  let free = most;
  const waiting: (() => void)[] = [];
  return async <T>(run: () => Promise<T>): Promise<T> => {
    if (free > 0) free -= 1;
    else await new Promise<void>((resolve) => waiting.push(resolve));
    try {
      return await run();
    } finally {
      const next = waiting.shift();
      if (next) next();
      else free += 1;
    }
  };
}
