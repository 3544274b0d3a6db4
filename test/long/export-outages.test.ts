import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { many } from '../../domain/sql';
import { root } from '../../runtime/root';
import { filesBelow, sumsOf } from '../exports/world';
import { type Answer, makeTenant, type Tenant } from '../support/api';
import { openPaymentProcesses, type PaymentProcesses } from '../support/payments/processes';
import { until } from '../support/until';

// What an export goes through as other parts end beside it: the API as it is made, Temporal as it
// is written.

let world: PaymentProcesses;
let tenant: Tenant;
let dir: string;
let worker: ChildProcess;

beforeAll(async () => {
  dir = await mkdtemp(path.join(tmpdir(), 'svc-exports-'));
  world = await openPaymentProcesses({ EXPORT_DIR: dir });
  worker = spawn(process.execPath, ['run.cjs', 'workers/main.ts', 'export'], {
    cwd: root,
    env: world.env,
    stdio: 'ignore',
  });
  tenant = await makeTenant(world.db);
  const { org_id, wallet_id } = tenant;
  await many(
    world.db,
    `select credit(:org_id, :wallet_id, n, 'credit ' || n) from generate_series(1, 500) as n`,
    { org_id, wallet_id },
  );
  await many(world.db, stalling);
  // It takes up its folder as it starts.
  await until(async () => (await ask()).status === 201);
});

afterAll(async () => {
  worker?.kill('SIGKILL');
  await world.close();
  await rm(dir, { recursive: true });
});

const stalling = `
  create table export_stalls (name text);
  create function stall_export() returns trigger language plpgsql as $$
  begin
    if exists (select from export_stalls s where s.name = tg_table_name || ' ' || tg_op) then
      perform pg_sleep(600);
    end if;
    return new;
  end $$;
  create trigger stall_export after insert on exports for each row execute function stall_export();
  create trigger stall_export after update on export_files for each row execute function stall_export()`;

const sleeping = `datname = current_database() and wait_event = 'PgSleep'`;
const period = { from: new Date(Date.now() - 3_600_000).toISOString(), to: new Date() };

function ask(key?: string): Promise<Answer> {
  const body = { kinds: ['ledger', 'statement'], format: 'csv', ...period };
  return world.call('post', '/v1/exports', {
    key: tenant.owner_key,
    body,
    ...(key && { headers: { 'idempotency-key': key } }),
  });
}

async function ended(id: string): Promise<Answer['body']> {
  let body: Answer['body'];
  await until(async () => {
    ({ body } = await world.call('get', `/v1/exports/${id}`, { key: tenant.owner_key }));
    return !['queued', 'running'].includes(body.status);
  }, 300_000);
  return body;
}

/** Lets the next such write, by its table and operation, stand still. */
async function stalled(name: string): Promise<void> {
  await many(world.db, 'insert into export_stalls values (:name)', { name });
}

async function standsStill(): Promise<void> {
  await until(async () => {
    const found = await many(world.db, `select 1 from pg_stat_activity where ${sleeping}`);
    return found.length > 0;
  });
}

/** The stalled write is undone, as the database does once its client is gone. */
async function undo(): Promise<void> {
  await many(world.db, 'delete from export_stalls');
  await many(world.db, `select pg_terminate_backend(pid) from pg_stat_activity where ${sleeping}`);
}

const exportsMade = async () => {
  const rows = await world.db('exports').where({ org_id: tenant.org_id });
  return rows.length;
};

test('an API that is killed as it makes an export has made none; repeated under its key it is one', async () => {
  const before = await exportsMade();
  await stalled('exports INSERT');
  const lost = ask('once').catch(() => undefined);
  await standsStill();
  await world.api.kill();
  await lost;
  await undo();
  await world.api.start();
  expect(await exportsMade()).toBe(before);
  const first = await ask('once');
  const again = await ask('once');
  expect([first.status, again.text]).toEqual([201, first.text]);
  expect(await exportsMade()).toBe(before + 1);
  const done = await ended(first.body.id);
  expect(done).toMatchObject({ status: 'completed', error_code: null });
  const files = (await filesBelow(dir)).filter((name) => name.includes(done.id));
  expect(files.filter((name) => name.endsWith('manifest.json'))).toHaveLength(1);
});

test('Temporal that is killed in the middle of an export and started again changes none of its bytes', async () => {
  const undisturbed = await ended((await ask()).body.id);
  expect(undisturbed.status).toBe('completed');
  await stalled('export_files UPDATE');
  const { id } = (await ask()).body;
  await standsStill();
  await world.temporal.kill();
  // The write goes on while Temporal is away, or is done once more.
  await undo();
  const waiting = await world.call('get', `/v1/exports/${id}`, { key: tenant.owner_key });
  expect(waiting.body.status).toBe('running');
  await world.temporal.start();
  const done = await ended(id);
  expect(done).toMatchObject({ status: 'completed', error_code: null });
  expect(sumsOf(done)).toEqual(sumsOf(undisturbed));
  const files = (await filesBelow(dir)).filter((name) => name.includes(id));
  expect(files.filter((name) => path.basename(name).startsWith('.'))).toEqual([]);
  expect(files.filter((name) => name.endsWith('manifest.json'))).toHaveLength(1);
});
