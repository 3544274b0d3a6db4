import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { many } from '../../domain/sql';
import { makeTenant, type Tenant } from '../support/api';
import { credit, makeOverdue, reserveBody, settleBody, TOKEN } from '../support/ledger';
import { randomOf, seed } from '../support/random';
import { bodyHash } from '../support/tickets';
import { until } from '../support/until';
import {
  afterWritten,
  type ExportWorld,
  ended,
  filesBelow,
  openExportWorld,
  startWorkerProcess,
  sumsOf,
} from './world';

// A worker that stops or dies between any two steps of an export leaves no trace in its files.
// EXPORT_KILLS=10 kills it ten times; each time its silence must first be noticed.

const KILLS = Number(process.env.EXPORT_KILLS ?? 1);
const STOPS = 4;
const DAYS = 3;
const kinds_asked = ['events', 'ledger', 'requests', 'tickets', 'payments', 'statement'] as const;
/** What changes in the middle of an export, once in each test. */
const changes = [1, 2, 3];
const open: { reservation_id: string; ticket_id: string; payment_id: string }[] = [];

let world: ExportWorld;
let tenant: Tenant;
let period: { from: string; to: Date };
let expected: Record<string, string>;
const children: ChildProcess[] = [];
const random = randomOf(seed);

beforeAll(async () => {
  world = await openExportWorld();
  tenant = await makeTenant(world.db);
  const { org_id, wallet_id } = tenant;
  await many(
    world.db,
    `insert into events (id, created_at, org_id, type, payload)
     select q.id, id_time(q.id), :org_id, 'request.completed', jsonb_build_object('n', q.n, 'text', md5(q.n::text))
     from (select 'evt_' || lpad(to_hex((extract(epoch from clock_timestamp()) * 1000)::bigint - (n % :days) * 86400000), 12, '0')
         || left(md5(n::text), 20) as id, n
       from generate_series(1, 60000) as n offset 0) as q`,
    { org_id, days: DAYS },
  );
  await many(
    world.db,
    `select credit(:org_id, :wallet_id, n, 'credit ' || n) from generate_series(1, 1500) as n`,
    { org_id, wallet_id },
  );
  const from = new Date(Date.now() - DAYS * 86_400_000).toISOString();
  await makeCalls();
  period = { from, to: await afterWritten() };
});

/** What an export that nobody disturbs has now: some rows go on changing after each test. */
beforeEach(async () => {
  const exporter = await world.startExporter();
  expected = sumsOf(await ended(world, tenant.owner_key, await ask()));
  await exporter.stop();
  const kinds = Object.keys(expected).map((name) => name.split(' ')[0]);
  expect(new Set(kinds)).toEqual(new Set(kinds_asked));
});

afterAll(async () => {
  for (const child of children) child.kill('SIGKILL');
  await world.close();
});

/** Calls that are settled, holds that have expired, and a ticket and a payment for each. */
async function makeCalls(): Promise<void> {
  const { db, call, machine: key } = world;
  const { org_id, wallet_id, owner_key } = tenant;
  await credit(db, org_id, wallet_id, 1_000_000n * TOKEN);
  const reserve = async (tokens: number) => {
    const body = { ...reserveBody(org_id, tokens), request_body_hash: bodyHash() };
    return (await call('post', '/v1/gateway/wallets/reserve', { key, body })).body;
  };
  for (let n = 0; n < 200; n += 1) await settle((await reserve(10)).reservation_id);
  for (const _ of changes) {
    const { reservation_id } = await reserve(10);
    await makeOverdue(db, reservation_id);
    const { cost_ticket } = await reserve(5_000_000);
    const { rows } = await db.raw(
      `insert into payment_sessions (org_id, created_by, provider, surface, amount_nanos, currency, target_wallet_owner_type, wallet_id,
         return_url, cancel_url, expires_at)
       values (?, 'owner', 'payment_provider_a', 'console', 5, 'USD', 'organization', ?, 'https://a', 'https://b', now() + interval '1 hour')
       returning id`,
      [org_id, wallet_id],
    );
    open.push({ reservation_id, ticket_id: cost_ticket.id, payment_id: rows[0].id });
  }
  await many(db, 'select expire_holds(:org_id)', { org_id });
  expect((await call('get', '/v1/cost-tickets', { key: owner_key })).body.total).toBe(open.length);
}

async function settle(reservation_id: string): Promise<void> {
  const body = settleBody(tenant.org_id, reservation_id, 9);
  const { status } = await world.call('post', '/v1/gateway/wallets/settle', {
    ...{ key: world.machine, body },
  });
  expect(status).toBe(200);
}

/** A hold that had expired is settled late, a ticket is decided, a payment is canceled. */
async function change(id: string): Promise<void> {
  const { reservation_id, ticket_id, payment_id } = open.pop() as (typeof open)[number];
  await settle(reservation_id);
  const { rowCount } = await world.db.raw(
    `update reservations set id = id where id = ? and status = 'late'`,
    [reservation_id],
  );
  expect(rowCount).toBe(1);
  // All of these are yet to be written.
  const unwritten = await many<{ kind: string }>(
    world.db,
    `select distinct kind from export_files where export_id = :id and written_at is null`,
    { id },
  );
  const left = unwritten.map(({ kind }) => kind);
  expect(left).toEqual(expect.arrayContaining(['requests', 'tickets', 'payments', 'statement']));
  await many(
    world.db,
    `update cost_tickets set status = 'denied', resolved_at = now() where id = :ticket_id`,
    { ticket_id },
  );
  await many(
    world.db,
    `update payment_sessions set status = 'canceled', updated_at = now() where id = :payment_id`,
    { payment_id },
  );
}

async function ask(): Promise<string> {
  const body = { kinds: kinds_asked, ...period };
  const answer = await world.call('post', '/v1/exports', { key: tenant.owner_key, body });
  expect(answer.status).toBe(201);
  return answer.body.id;
}

async function rowsOf(id: string): Promise<number> {
  const { body } = await world.call('get', `/v1/exports/${id}`, { key: tenant.owner_key });
  return body.status === 'running' ? body.rows : Number.POSITIVE_INFINITY;
}

/** Waits until a worker has begun anew or gone on, and then for some moment more. */
async function getsOn(id: string, rows: number): Promise<void> {
  await until(async () => {
    await world.dispatch();
    return (await rowsOf(id)) !== rows;
    // Its silence is noticed after 10 s, and each further try waits longer, up to 30 s.
  }, 120_000);
  await sleep(random() * 120);
}

/** The export is complete, and its files are those of an export that nobody disturbed. */
async function requireSame(id: string): Promise<void> {
  const done = await ended(world, tenant.owner_key, id);
  expect(done).toMatchObject({ status: 'completed', error_code: null });
  expect(sumsOf(done)).toEqual(expected);
  const files = (await filesBelow(world.dir)).filter((name) => name.includes(id));
  expect(files.filter((name) => path.basename(name).startsWith('.'))).toEqual([]);
  expect(files.filter((name) => name.endsWith('manifest.json'))).toHaveLength(1);
  const manifest = files.find((name) => name.endsWith('manifest.json')) as string;
  const { files: named } = JSON.parse(await readFile(path.join(world.dir, manifest), 'utf8'));
  for (const { name } of named.filter((one: { name: string | null }) => one.name !== null))
    expect(files.map((one) => path.basename(one))).toContain(name);
}

test(`a worker that is stopped ${STOPS} times hands the file over at once: the same bytes`, async () => {
  const id = await ask();
  for (let stop = 0; stop < STOPS; stop += 1) {
    const rows = await rowsOf(id);
    const exporter = await world.startExporter();
    await getsOn(id, rows);
    await exporter.stop();
    if (stop === 0) await change(id);
  }
  const exporter = await world.startExporter();
  await requireSame(id);
  await exporter.stop();
  // Nobody had to find out by silence.
  const { events } = await world.client.workflow.getHandle(id).fetchHistory();
  const failures = (events ?? []).map((one) => one.activityTaskStartedEventAttributes?.lastFailure);
  expect(failures.filter((one) => one?.timeoutFailureInfo)).toEqual([]);
  expect(failures.some((one) => one?.applicationFailureInfo?.type === 'WorkerStops')).toBe(true);
}, 900_000);

test(`a worker that is killed (${KILLS}) leaves no trace: the same bytes, one manifest`, async () => {
  const id = await ask();
  for (let kill = 0; kill < KILLS; kill += 1) {
    const rows = await rowsOf(id);
    const child = startProcess();
    await getsOn(id, rows);
    child.kill('SIGKILL');
    await once(child, 'exit');
    if (kill === 0) await change(id);
  }
  startProcess();
  await requireSame(id);
}, 900_000);

test(`a database that ends the sessions that read, ${STOPS} times, changes nothing: the same bytes`, async () => {
  const id = await ask();
  startProcess();
  for (let ended_sessions = 0; ended_sessions < STOPS; ended_sessions += 1) {
    await until(async () => {
      await world.dispatch();
      const cut = await many(
        world.db,
        `select pg_terminate_backend(pid) from pg_stat_activity
         where datname = current_database() and state = 'active' and query like 'copy (%'`,
      );
      return cut.length > 0;
    }, 120_000);
  }
  await requireSame(id);
}, 900_000);

function startProcess(): ChildProcess {
  const child = startWorkerProcess(world);
  children.push(child);
  return child;
}
