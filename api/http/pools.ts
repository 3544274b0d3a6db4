import type { Db } from '../../domain/sql';
import { openDatabase } from '../../runtime/database';

/**
 * Who shares a pool: gateways, whose calls wait for nobody's lists; people who read, each for a
 * short time; people who write, and reads that take long.
 */
export type PoolName = 'machine' | 'reads' | 'people';

/** The pools of connections to the database. */
export type Pools = Record<PoolName, Db>;

/** What people read is read within so long, or not at all. */
const READ_MS = 5_000;

interface PoolConfig {
  DATABASE_URL: string;
  DATABASE_POOL_MAX: number;
  DATABASE_PEOPLE_POOL_MAX: number;
}

export function openPools(config: PoolConfig): Pools {
  const { DATABASE_URL: url, DATABASE_POOL_MAX, DATABASE_PEOPLE_POOL_MAX } = config;
  return {
    machine: openDatabase(url, DATABASE_POOL_MAX, 'api machine'),
    people: openDatabase(url, DATABASE_PEOPLE_POOL_MAX, 'api'),
    reads: openDatabase(url, DATABASE_PEOPLE_POOL_MAX, 'api reads', READ_MS),
  };
}

/** Whose pool serves a route. */
export function poolOf({
  method,
  path,
  is_long,
}: {
  method: string;
  path: string;
  is_long: boolean;
}): PoolName {
  if (path.startsWith('/v1/gateway/')) return 'machine';
  return method === 'get' && !is_long ? 'reads' : 'people';
}

/** The pools of which no connection is free and somebody waits for one. */
export function exhaustedOf(pools: Pools): PoolName[] {
  const names = Object.keys(pools) as PoolName[];
  return names.filter((name) => {
    const { pool } = pools[name].client as { pool: PoolState };
    return pool.numUsed() >= pool.max && pool.numPendingAcquires() > 0;
  });
}

/** What the pool of knex says of itself. */
interface PoolState {
  max: number;
  numUsed(): number;
  numPendingAcquires(): number;
}
