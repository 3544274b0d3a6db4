import { setTimeout as sleep } from 'node:timers/promises';
import { after, newestPlace, type Place } from '../../domain/event-places';
import type { Event } from '../../domain/events';
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

/** One open stream. */
export interface Reader {
  org_id: string;
  /** What it may see and has asked for. */
  types: ReadonlySet<string>;
  action: string | undefined;
  /** Everything up to here is read. */
  place: Place;
  /** Shows events. Resolves once it takes more; false if it has gone. */
  show: (page: readonly Event[]) => true | Promise<boolean>;
  /** Ends it; with an error if that is why. */
  end: (error?: unknown) => void;
}

/** The event streams that this API has open. */
export type EventStreams = ReturnType<typeof createEventStreams>;

/** The readers of one organization; those that show what they were given, until they take more. */
interface Feed {
  org_id: string;
  readers: Set<Reader>;
  busy: Set<Reader>;
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
    while (feed.readers.size > 0) {
      if (isDraining()) for (const reader of feed.readers) reader.end();
      const started = performance.now();
      const left = await lookOf(feed);
      const took_ms = performance.now() - started;
      await sleep(left ? Math.max(PAUSE_MS_MIN, took_ms * PAUSE_PER_LOOK) : POLL_MS);
    }
    feeds.delete(feed.org_id);
  }

  /** True if some readers have more to read already. */
  async function lookOf(feed: Feed): Promise<boolean> {
    try {
      return await inTurn(async () => look(db, feed, await newest()));
    } catch (error) {
      // Readers stay while the database is away; anything else is a bug, and ends them.
      if (!cannotWorkNow(error)) for (const reader of feed.readers) reader.end(error);
      return false;
    }
  }

  return {
    /** Takes a place for a stream of a key or person, or throws; returns how to give it back. */
    takePlace: places.take,
    /** Shows a reader all events after its place as they become visible; returns how it leaves. */
    follow(reader: Reader): () => void {
      const { org_id } = reader;
      const feed = feeds.get(org_id) ?? { org_id, readers: new Set(), busy: new Set() };
      feed.readers.add(reader);
      if (feeds.get(org_id) !== feed) {
        feeds.set(org_id, feed);
        void run(feed);
      }
      return () => {
        feed.readers.delete(reader);
      };
    },
  };
}

async function look(db: Db, feed: Feed, until: Place): Promise<boolean> {
  const groups = groupsBehind(feed, until).sort(byPlace);
  const near = groups.at(-1);
  if (near) await read(db, feed, near, until);
  // Of the others those that are farthest back: they read as far as the next and then go with them.
  const [oldest, next] = groups;
  if (oldest && oldest !== near) await read(db, feed, oldest, placeOf(next as Reader[]));
  return groupsBehind(feed, until).length > 0;
}

function placeOf([first]: Reader[]): Place {
  return (first as Reader).place;
}

/** The readers that have something to read, by how far they have read. */
function groupsBehind(feed: Feed, until: Place): Reader[][] {
  const groups = new Map<string, Reader[]>();
  for (const reader of feed.readers) {
    const { transaction_id, id } = reader.place;
    if (feed.busy.has(reader) || BigInt(transaction_id) >= BigInt(until.transaction_id)) continue;
    const group = groups.get(`${transaction_id} ${id}`);
    if (group) group.push(reader);
    else groups.set(`${transaction_id} ${id}`, [reader]);
  }
  return [...groups.values()];
}

function byPlace(a: Reader[], b: Reader[]): number {
  const [one, other] = [placeOf(a), placeOf(b)];
  const apart = BigInt(one.transaction_id) - BigInt(other.transaction_id);
  if (apart !== 0n) return apart < 0n ? -1 : 1;
  return one.id < other.id ? -1 : 1;
}

async function read(db: Db, feed: Feed, group: Reader[], until: Place): Promise<void> {
  const types = new Set(group.flatMap((reader) => [...reader.types]));
  const wanted = { org_id: feed.org_id, types: [...types], scan: SCAN, limit: PAGE };
  const page = await after(db, wanted, placeOf(group), until);
  for (const reader of group) {
    // It may have gone meanwhile.
    if (!feed.readers.has(reader)) continue;
    reader.place = page.place;
    const shown = page.events.filter(
      ({ type, action }) =>
        reader.types.has(type) && (reader.action === undefined || reader.action === action),
    );
    const taken = shown.length === 0 || reader.show(shown);
    if (taken !== true) waitFor(feed, reader, taken);
  }
}

function waitFor({ busy }: Feed, reader: Reader, taken: Promise<boolean>): void {
  busy.add(reader);
  void taken.then((takes_more) => {
    busy.delete(reader);
    if (!takes_more) reader.end();
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
