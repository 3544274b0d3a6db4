import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, openSync } from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { root } from '../../runtime/root';
import { freePorts } from '../../sandbox/processes/ports';
import { caller, makeTenant, secrets_key } from '../support/api';
import { openTestDatabase, type TestDatabase } from '../support/database';
import { until } from '../support/until';

let database: TestDatabase;
const started: ChildProcess[] = [];

beforeAll(async () => {
  database = await openTestDatabase();
});

afterAll(async () => {
  for (const child of started) child.kill('SIGKILL');
  await database.close();
});

interface Api {
  child: ChildProcess;
  output: () => string;
  exit: Promise<number | null>;
}

function startMain(env: Record<string, string>, stdout: 'pipe' | number = 'pipe'): Api {
  const { DATABASE_URL: _, ...rest } = process.env;
  const child = spawn(process.execPath, ['run.cjs', 'api/main.ts'], {
    cwd: root,
    env: { TEMPORAL_ADDRESS: '127.0.0.1:1', SVC_SECRETS_KEY: secrets_key, ...rest, ...env },
    stdio: ['ignore', stdout, 'pipe'],
  });
  started.push(child);
  let text = '';
  for (const stream of [child.stdout, child.stderr])
    stream?.on('data', (chunk) => {
      text += chunk;
    });
  return { child, output: () => text, exit: once(child, 'exit').then(([code]) => code) };
}

test('the process names the variable that is missing, and ends with 1', async () => {
  const { exit, output } = startMain({});
  expect(await exit).toBe(1);
  expect(output()).toContain('DATABASE_URL');
  expect(output()).not.toContain(' at ');
});

test('a taken port is said in one line that names the port and its variable, and the process ends with 1', async () => {
  const taken = createServer().listen(0);
  await once(taken, 'listening');
  const { port } = taken.address() as AddressInfo;
  const { exit, output } = startMain({ DATABASE_URL: database.url, API_PORT: String(port) });
  expect(await exit).toBe(1);
  taken.close();
  expect(output().trim()).toBe(
    `Port ${port} is in use by another process. Set API_PORT to another one.`,
  );
});

test('on SIGTERM what is in flight is finished and answered, nothing new is taken, and the process ends with 0', async () => {
  const { db, url } = database;
  const [port = 0] = await freePorts(1);
  const { child, exit, output } = startMain({ DATABASE_URL: url, API_PORT: String(port) });
  await until(() => output().includes('api listens'));
  const call = caller(`http://127.0.0.1:${port}`);
  expect((await call('get', '/readyz')).status).toBe(200);

  const { org_id, billing_key, wallet_id } = await makeTenant(db);
  const body = { target_wallet_owner_type: 'organization', amount: 2 };
  const credit = await db.transaction(async (trx) => {
    await trx.raw('select lock_organization(?)', [org_id]);
    const inFlight = call('post', '/v1/wallets/credit', { key: billing_key, body });
    await until(async () => (await waitingFor(trx)) > 0);
    child.kill('SIGTERM');
    await until(async () => (await call('get', '/health').catch(() => null)) === null);
    return { inFlight };
  });
  expect(await credit.inFlight).toMatchObject({ status: 201, body: { wallet: { balance: 2 } } });
  expect(await exit).toBe(0);
  expect(output()).toContain('api has stopped');
  const lines = output().split('\n');
  const requests = lines.filter((line) => line.includes('"msg":"request"'));
  expect(requests.map((line) => JSON.parse(line))).toMatchObject([
    {
      ...{ method: 'POST', route: '/v1/wallets/credit', status: 201, org_id },
      ...{ key_id: expect.stringMatching(/^key_/), request_id: expect.stringMatching(/^req_/) },
    },
  ]);
  expect(output()).not.toContain(billing_key);
  const [wallet] = await db('wallets').where({ id: wallet_id });
  expect(wallet.balance_nanos).toBe(2_000_000_000n);
});

test.each(['nobody reads any more', 'is a full disk'])(
  'a process whose output %s stops in time',
  async (why) => {
    const [port = 0] = await freePorts(1);
    const env = { DATABASE_URL: database.url, API_PORT: String(port) };
    const full = openSync('/dev/full', 'w');
    const { child, exit } = startMain(env, why === 'is a full disk' ? full : 'pipe');
    closeSync(full);
    const call = caller(`http://127.0.0.1:${port}`);
    await until(async () => (await call('get', '/readyz').catch(() => null))?.status === 200);
    child.stdout?.destroy();
    for (let n = 0; n < 3; n += 1) await call('get', '/v1/wallets');
    child.kill('SIGTERM');
    const ended = await Promise.race([exit, sleep(60_000, 'it runs on', { ref: false })]);
    expect(ended).toBe(0);
  },
);

/** Sessions of this database that wait for a lock. */
async function waitingFor(db: TestDatabase['db']): Promise<number> {
  const { rows } = await db.raw(
    `select count(*)::int as waiting from pg_stat_activity
     where datname = current_database() and wait_event_type = 'Lock'`,
  );
  return rows[0].waiting;
}
