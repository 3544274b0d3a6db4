import * as schedules from '../../domain/exports/schedules';
import { momentNow, openBefore, openSince, openWords } from '../../domain/exports/settling';
import { many, one } from '../../domain/sql';
import { openDatabase } from '../../runtime/database';
import { makeTenant } from '../support/api';
import { patient } from '../support/database';
import { until } from '../support/until';
import { type ExportWorld, openExportWorld } from './world';

// A transaction that somebody left open keeps exports waiting: nobody knows what it will have
// written. It is named, so that an operator can end it.

let world: ExportWorld;

beforeAll(async () => {
  world = await openExportWorld();
});

afterAll(() => world.close());

/** Runs something while a session of this name has written and not ended its transaction. */
async function whileOpen(name: string, run: (pid: number) => Promise<void>): Promise<void> {
  const { connectionString } = world.db.client.config.connection;
  const other = patient(openDatabase(connectionString, 1, name));
  const rollback = new Error('as it was');
  const opened = other.transaction(async (trx) => {
    // Sessions of ours are ended after a while, those of others are not.
    await trx.raw('set local idle_in_transaction_session_timeout = 0');
    // As if it had written: it has a number.
    await many(trx, 'select pg_current_xact_id()');
    const { pid } = await one<{ pid: number }>(trx, 'select pg_backend_pid() as pid');
    await run(pid);
    throw rollback;
  });
  await expect(opened).rejects.toBe(rollback);
  await other.destroy();
}

test('an open transaction that began before a moment is found, and none that began later', async () => {
  const { db } = world;
  const before = await momentNow(db);
  await whileOpen('left-open', async (pid) => {
    const found = await openSince(db, await momentNow(db));
    expect(found).toMatchObject({ pid, application: expect.stringContaining('left-open') });
    expect(found?.seconds).toBeGreaterThanOrEqual(0);
    expect(await openSince(db, before)).toBe(undefined);
    expect(await openBefore(db, new Date(Date.now() + 3_600_000))).toMatchObject({ pid });
    expect(await openBefore(db, new Date(Date.now() - 3_600_000))).toBe(undefined);
  });
  await until(async () => (await openSince(db, await momentNow(db))) === undefined);
});

test('an export that waits for it is 503, which names it to a platform admin and to nobody else', async () => {
  const tenant = await makeTenant(world.db);
  await whileOpen('left-open', async (pid) => {
    const day = { from: '2026-06-01', to: '2026-06-02' };
    const body = { kinds: ['ledger'], ...day };
    const [own, all] = await Promise.all([
      world.call('post', '/v1/exports', { key: tenant.owner_key, body }),
      world.call('post', '/v1/admin/exports', { key: world.platform, body }),
    ]);
    expect([own.status, all.status]).toEqual([503, 503]);
    expect(all.body.error.message).toContain(`Session ${pid} (`);
    expect(all.body.error.message).toContain('left-open');
    expect(own.body.error.message).not.toContain(String(pid));
    expect(own.body.error.message).not.toContain('left-open');
  });
});

test('a schedule that waits for it is among the failed ones of its run, with its name', async () => {
  const { db } = world;
  const tenant = await makeTenant(db);
  const body = { kinds: ['ledger'], every: 'day', from: '2026-06-01' };
  const key = tenant.owner_key;
  const { id } = (await world.call('post', '/v1/export-schedules', { key, body })).body;
  // As if the lag had passed while the transaction goes on: the window is today's.
  await db.raw('alter table export_schedules drop constraint export_schedules_lag_minutes_check');
  await many(
    db,
    `update export_schedules set lag_minutes = -1440,
       window_from = date_trunc('day', clock_timestamp() at time zone 'UTC') at time zone 'UTC' where id = :id`,
    { id },
  );
  await whileOpen('left-open', async (pid) => {
    const { made, failed } = await schedules.run(db, 50);
    expect(made).toBe(0);
    expect(failed).toEqual([expect.stringContaining(`${id}: `)]);
    expect(failed[0]).toContain(`Session ${pid} (`);
    expect(failed[0]).toContain('left-open');
  });
  expect(await schedules.run(db, 50)).toEqual({ made: 1, failed: [] });
});

test('what cannot be seen is left out of the words', () => {
  const words = openWords({ pid: 7, application: '', seconds: null });
  expect(words).toMatch(
    /^Session 7 has had a transaction open, and .*pg_terminate_backend\(7\)\.$/,
  );
});
