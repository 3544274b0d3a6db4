import { openBatches } from '../../api/ledger/batches';
import { audit } from '../../domain/ledger/audit';
import * as editions from '../../domain/spend/editions';
import { type Db, many } from '../../domain/sql';
import { createLog } from '../../runtime/log';
import { root } from '../../runtime/root';
import { freePorts } from '../../sandbox/processes/ports';
import { launch, type Process, type Watch } from '../../sandbox/processes/processes';
import { call, ledgerNanos, nanosBy, nanosOf, spent } from '../domain/spend/world';
import { secrets_key } from '../support/api';
import { openTestDatabase } from '../support/database';
import { makeFundedOrg, makePrice } from '../support/ledger';
import { until } from '../support/until';

// The process that folds spend is killed at each of its writes: what it has sent may end or not,
// and each settlement counts once.

let db: Db;
let url: string;
let lanes: ReturnType<typeof openBatches>;
let close: () => Promise<void>;
let api: Process | undefined;

beforeAll(async () => {
  let dropDatabase: () => Promise<void>;
  ({ db, url, close: dropDatabase } = await openTestDatabase());
  lanes = openBatches(db, createLog('test', 'fatal'));
  await makePrice(db);
  await many(db, stalling);
  close = async () => {
    await lanes.close();
    const { broken } = await audit(db);
    await dropDatabase();
    expect(broken).toEqual([]);
  };
});
afterAll(async () => {
  await kill();
  await close();
});

const GATE = 4711;

/** Each write to a table that is named in `stalls` waits until the test opens the gate. */
const stalling = `
  create table stalls (name text);
  create function stall() returns trigger language plpgsql set lock_timeout = 0 as $$
  begin
    if exists (select from stalls s where s.name = tg_table_name) then
      perform pg_advisory_xact_lock_shared(${GATE});
    end if;
    return null;
  end $$;
  ${['spend_days', 'spend_hours', 'spend_tags', 'spend_tag_days', 'spend_cursors', 'spend_editions']
    .map(
      (table) =>
        `create trigger stall after insert or update on ${table} for each statement execute function stall();`,
    )
    .join('\n')}`;

const stalled = `l.locktype = 'advisory' and l.objid = ${GATE} and not l.granted
  and l.database = (select d.oid from pg_database d where d.datname = current_database())`;

async function isStalled(): Promise<boolean> {
  return (await many(db, `select 1 from pg_locks l where ${stalled}`)).length > 0;
}

/** Closes the gate; what it returns opens it. */
async function closeGate(): Promise<() => Promise<void>> {
  const gate = await db.transaction();
  await many(gate, 'set local idle_in_transaction_session_timeout = 0');
  await many(gate, `select pg_advisory_xact_lock(${GATE})`);
  return async () => void (await gate.rollback());
}

/** `npm run start:api`, which folds each two seconds. */
async function startApi(): Promise<void> {
  const [port = 0] = await freePorts(1);
  let isReady = false;
  const watch: Watch = {
    onLine: (line) => {
      isReady ||= line.includes('api listens');
    },
  };
  api = await launch(
    {
      name: 'api',
      command: process.execPath,
      args: ['run.cjs', 'api/main.ts'],
      env: {
        ...process.env,
        DATABASE_URL: url,
        TEMPORAL_ADDRESS: process.env.TEST_TEMPORAL_ADDRESS,
        SVC_SECRETS_KEY: secrets_key,
        API_PORT: String(port),
      },
      cwd: root,
      stop_signals: ['SIGTERM', 'SIGKILL'],
      isReady: async () => isReady,
      ready_timeout_ms: 180_000,
    },
    watch,
  );
}

async function kill(): Promise<void> {
  if (api === undefined) return;
  process.kill(api.pid, 'SIGKILL');
  await api.ended;
  api = undefined;
}

const writes = ['spend_days', 'spend_hours', 'spend_tags', 'spend_tag_days', 'spend_cursors'];

test.each([...writes, 'spend_editions'])(
  'a process that is killed as it writes %s leaves each settlement counted once',
  async (table) => {
    const { org_id } = await makeFundedOrg(db, 1_000_000, { time_zone: 'Pacific/Auckland' });
    await editions.openEditions(db);
    const asked = { interval: 'hour' } as const;
    for (const is_ended of [true, false]) {
      for (let n = 1; n <= 12; n += 1)
        await call({ db, lanes }, org_id, n, undefined, { tags: [`tag ${is_ended} ${n}`, table] });
      // Another zone makes another edition, which takes the place of the first one.
      if (table === 'spend_editions')
        await many(db, 'update organizations set time_zone = :time_zone where id = :org_id', {
          time_zone: is_ended ? 'Asia/Kolkata' : 'UTC',
          org_id,
        });
      await many(db, 'insert into stalls values (:table)', { table });
      const before = await ledgerNanos(db, org_id);
      const openGate = await closeGate();
      await startApi();
      await until(isStalled);
      await kill();
      await many(db, 'delete from stalls');
      // What has been sent ends without it, or is undone as the connection ends.
      if (is_ended)
        await many(db, `select pg_terminate_backend(l.pid) from pg_locks l where ${stalled}`);
      await openGate();
      await until(async () => !(await isStalled()));
      expect((await spent(db, org_id, asked)).totals.cost_nanos).toBe(before);
      while ((await editions.madeNow(db)) > 0 || (await editions.foldStep(db, 5)) > 0)
        await editions.foldStep(db, 5);
      expect((await spent(db, org_id, asked)).totals).toMatchObject({
        cost_nanos: before,
        requests: is_ended ? 12 : 24,
      });
      const by_tag = await nanosBy(db, org_id, { interval: 'month', group_by: ['tag'] });
      const of_all = Object.entries(by_tag).filter(([name]) => name.endsWith(` ${table}`));
      expect(of_all.reduce((sum, [, nanos]) => sum + nanos, 0n)).toBe(before);
    }
  },
  900_000,
);

test('of 1,050 tags of a day 1,000 have names, and the rest counts as other, to the nano', async () => {
  const { org_id } = await makeFundedOrg(db, 10_000_000);
  const at = new Date(Date.now() - 3 * 86_400_000);
  for (let n = 0; n < 210; n += 1)
    await call({ db, lanes }, org_id, 1, at, {
      tags: Array.from({ length: 5 }, (_, k) => `tag ${n} ${k}`),
    });
  await editions.openEditions(db);
  while ((await editions.foldStep(db, 50)) > 0);
  const day = (days: number) =>
    new Date(at.getTime() + days * 86_400_000).toISOString().slice(0, 10);
  const by_tag = await nanosBy(db, org_id, { from: day(0), to: day(1), group_by: ['tag'] });
  const named = Object.keys(by_tag)
    .map((name) => name.split(' ').slice(1).join(' '))
    .filter((tag) => tag !== 'other');
  expect(named).toHaveLength(1_000);
  for (const tag of named) expect([tag, by_tag[`${day(0)} ${tag}`]]).toEqual([tag, nanosOf(1)]);
  // A call counts under `other` once, however many of its tags have no names.
  const names = new Set(named);
  const others = Array.from({ length: 210 }, (_, n) => n).filter((n) =>
    [0, 1, 2, 3, 4].some((k) => !names.has(`tag ${n} ${k}`)),
  );
  expect(by_tag[`${day(0)} other`]).toBe(nanosOf(others.length));
  expect((await spent(db, org_id)).totals).toMatchObject({
    cost_nanos: nanosOf(210),
    requests: 210,
  });
  await editions.rebuild(db, org_id);
  while ((await editions.madeNow(db)) > 0) await editions.foldStep(db);
  const { totals } = await spent(db, org_id);
  expect(totals).toMatchObject({ cost_nanos: nanosOf(210), requests: 210 });
});
