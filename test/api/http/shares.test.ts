import { openPools, type Pools } from '../../../api/http/pools';
import { type Db, many } from '../../../domain/sql';
import { type Answer, type CallApi, makeTenant, serve, type Tenant } from '../../support/api';
import { openTestDatabase, patient, type TestDatabase } from '../../support/database';
import { credit } from '../../support/ledger';
import { until } from '../../support/until';

let database: TestDatabase;
let db: Db;
let pools: Pools;
let call: CallApi;
let closeServer: () => Promise<void>;
let noisy: Tenant;
let stranger: Tenant;

beforeAll(async () => {
  database = await openTestDatabase();
  ({ db } = database);
  const { machine, people, reads } = openPools({
    DATABASE_URL: database.url,
    DATABASE_POOL_MAX: 2,
    DATABASE_PEOPLE_POOL_MAX: 4,
  });
  pools = { machine: patient(machine), people: patient(people), reads: patient(reads) };
  ({ call, close: closeServer } = await serve({ db, pools }));
  [noisy, stranger] = [await makeTenant(db), await makeTenant(db)];
  for (const { org_id, wallet_id } of [noisy, stranger])
    await credit(db, org_id, wallet_id, 10_000_000_000n);
});

afterAll(async () => {
  await closeServer();
  for (const pool of Object.values(pools)) await pool.destroy();
  await database.close();
});

// So long a statement waits for its turn.
const WAIT_MS = 5_000;

function allocate({ billing_key: key, team_id }: Tenant): Promise<Answer> {
  return call('post', '/v1/wallets/allocate', { key, body: { team_id, amount: 0.001 } });
}

/** Locks the organization's money as its own writes do, until the returned function is called. */
async function locked({ org_id }: Tenant): Promise<() => Promise<void>> {
  const trx = await db.transaction();
  await many(trx, 'select lock_organization(:org_id)', { org_id });
  return async () => void (await trx.rollback());
}

interface Pool {
  numUsed(): number;
  numPendingAcquires(): number;
}

function stateOf(pooled: Db): number[] {
  const { pool } = pooled.client as { pool: Pool };
  return [pool.numUsed(), pool.numPendingAcquires()];
}

/** Until so many connections are in use, and so many are waited for. */
async function untilStateIs(pooled: Db, state: number[]): Promise<void> {
  await until(async () => String(stateOf(pooled)) === String(state));
}

test('writes that wait for their organization’s lock leave connections to other organizations, and are carried out in turn', async () => {
  const unlock = await locked(noisy);
  const began = performance.now();
  const statuses: number[] = [];
  const writes = Array.from({ length: 40 }, async () => {
    statuses.push((await allocate(noisy)).status);
  });
  await untilStateIs(pools.people, [2, 0]);
  const others = await allocate(stranger);
  expect(others.status).toBe(200);
  expect(statuses.filter((status) => status !== 503)).toEqual([]);
  await unlock();
  await Promise.all(writes);
  // 503: its turn came too late, as the machine was busy.
  const expected = performance.now() - began < WAIT_MS ? [200] : [200, 503];
  expect(expected).toEqual(expect.arrayContaining([...new Set(statuses)]));
  expect(statuses).toContain(200);
  expect(stateOf(pools.people)).toEqual([0, 0]);
});

test('lists that one organization reads for long leave connections to others', async () => {
  await many(
    db,
    `alter function events_before rename to events_before_really;
     create function events_before(p_org text, text, timestamptz, timestamptz, text[], text, text, text, integer, integer)
     returns setof scanned_event language sql as $$ select null::events, false from pg_sleep(0.3) $$`,
  );
  const key = noisy.owner_key;
  const reads = Array.from({ length: 12 }, () => call('get', '/v1/events', { key }));
  await untilStateIs(pools.reads, [2, 0]);
  const path = `/v1/organizations/${stranger.org_id}/agents`;
  const others = await call('get', path, { key: stranger.owner_key });
  expect(others.status).toBe(200);
  await Promise.all(reads);
});

test('an organization’s 201st request at one time is 429 with its headers; others’ and the webhooks’ are taken', async () => {
  const unlock = await locked(noisy);
  const writes = Array.from({ length: 205 }, () => allocate(noisy));
  const refused = await Promise.race(writes);
  expect(refused).toMatchObject({
    status: 429,
    headers: { 'retry-after': '1', 'x-ratelimit-limit': '200', 'x-ratelimit-remaining': '0' },
    body: { error: { code: 'rate_limit_exceeded' } },
  });
  expect((await allocate(stranger)).status).toBe(200);
  const webhook = await call('post', '/v1/payments/webhooks/payment_provider_b', { body: {} });
  expect(webhook.status).toBe(401);
  await unlock();
  const statuses = (await Promise.all(writes)).map(({ status }) => status);
  expect(statuses.filter((status) => status === 429)).toHaveLength(5);
  // 503: its turn came too late, as the lock was held for long.
  expect(statuses.filter((status) => [200, 503].includes(status))).toHaveLength(200);
  expect((await allocate(noisy)).status).toBe(200);
});
