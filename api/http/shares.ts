import type { Knex } from 'knex';
import { tooMany } from '../../domain/errors';
import type { Db } from '../../domain/sql';
import { createTurns, type Turns } from '../../runtime/turns';
import type { Principal } from './access';

/** Requests of one organization that are under way at one time in one pool. */
const UNDER_WAY_MAX = 200;
/** Of those who call without a key, payment providers and people who sign in among them. */
const PUBLIC_UNDER_WAY_MAX = 2_000;
/** As long as a pool waits for a connection itself. */
const WAIT_MS = 5_000;
const RETRY_MS = 1_000;
/** Shares of organizations at rest are kept: one takes a quarter of a millisecond to make. */
const KEPT_MAX = 1_000;

/** What a request has of a pool: connections as its organization's share allows. */
export interface Share {
  db: Db;
  /** The request is answered. */
  end: () => void;
}

/** The shares of one pool. */
export type Shares = ReturnType<typeof createShares>;

interface Taken {
  db: Db;
  under_way: number;
}

/**
 * Half of a pool's connections is the most that one organization has at one time, so that its
 * locks and its long lists stop nobody else. Its other statements wait here, in order, without a
 * connection. Those who call without a key, as payment providers do, have a share together, and so
 * have the platform's keys.
 */
export function createShares(db: Db) {
  const { max } = (db.client as { pool: { max: number } }).pool;
  const turns = createTurns({
    most: Math.max(1, Math.floor(max / 2)),
    wait_ms: WAIT_MS,
    message:
      'Too much of this organization is under way here. Repeat the request with the same ids.',
  });
  const taken = new Map<string, Taken>();

  return {
    /** Takes the request in; throws 429 if too many of its share are under way. */
    take({ id, org_id }: Principal): Share {
      const name = org_id ?? (id === '' ? 'public' : 'platform');
      const share = taken.get(name) ?? { db: inTurn(db, turns, name), under_way: 0 };
      if (org_id !== null && share.under_way >= UNDER_WAY_MAX)
        throw full('This organization has', UNDER_WAY_MAX);
      if (name === 'public' && share.under_way >= PUBLIC_UNDER_WAY_MAX)
        throw full('Callers without a key have', PUBLIC_UNDER_WAY_MAX);
      if (taken.size >= KEPT_MAX) dropResting(taken);
      taken.set(name, share);
      share.under_way += 1;
      const end = () => {
        share.under_way -= 1;
      };
      return { db: share.db, end };
    },
  };
}

function dropResting(taken: Map<string, Taken>): void {
  for (const [name, { under_way }] of taken) if (under_way === 0) taken.delete(name);
}

function full(who: string, most: number) {
  return tooMany(
    'rate_limit_exceeded',
    `${who} ${most} requests under way here, which is as many as there may be. Repeat the request after Retry-After.`,
    { limit: most, resets_at: new Date(Date.now() + RETRY_MS) },
  );
}

/** The same pool, of which each connection is taken in turn. */
function inTurn(db: Db, turns: Turns, name: string): Db {
  const shared: Db = db.withUserParams({});
  const client = shared.client as Knex.Client;
  const pool = db.client as Knex.Client;
  const ends = new Map<unknown, () => void>();
  client.acquireConnection = async () => {
    const end = await turns.take(name);
    try {
      const connection = await pool.acquireConnection();
      ends.set(connection, end);
      return connection;
    } catch (error) {
      end();
      throw error;
    }
  };
  client.releaseConnection = async (connection: unknown) => {
    await pool.releaseConnection(connection);
    ends.get(connection)?.();
    ends.delete(connection);
  };
  return shared;
}
