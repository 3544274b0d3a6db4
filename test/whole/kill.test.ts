import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Client, Connection } from '@temporalio/client';
import { audit } from '../../domain/ledger/audit';
import { many, maybe, one } from '../../domain/sql';
import { openDatabase } from '../../runtime/database';
import { root } from '../../runtime/root';
import type { Demo } from '../../sandbox/demo/facts';
import { pick, randomOf, seed } from '../support/random';
import { scratchRoot } from '../support/scratch';
import { until } from '../support/until';
import { type Answered, backendOf, isGone, isReady, kill, send } from './kills';

const scratch = mkdtempSync(path.join(scratchRoot(), 'svc-kill-'));
chmodSync(scratch, 0o755);
const demo_file = path.join(scratch, 'data/demo.json');
const LOAD_MS = 25_000;
const KILL_EVERY_MS = 2_000;
const LIFE_SECONDS = 10;
const [KILLS, ANSWERS] = [8, 100];
const random = randomOf(seed);

let product: ChildProcess;
let output = '';

beforeAll(async () => {
  product = spawn(process.execPath, ['run.cjs', 'sandbox/start.ts'], {
    cwd: root,
    env: {
      ...process.env,
      DATA_DIR: path.dirname(demo_file),
      PORTS: 'free',
      APIS: '2',
      GATEWAYS: '2',
    },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  for (const stream of [product.stdout, product.stderr]) {
    stream?.on('data', (chunk) => {
      output += chunk;
    });
  }
  await until(() => existsSync(demo_file) || product.exitCode !== null, 300_000);
  if (product.exitCode !== null) throw new Error(output);
});

afterAll(async () => {
  const ended = once(product, 'exit');
  if (product.exitCode === null) {
    product.kill('SIGTERM');
    await ended;
  }
  rmSync(scratch, { recursive: true, force: true });
});

test('whatever is killed under load, every hold closes once, what was answered was held first, and the audit is clean', async () => {
  const first = demo();
  const db = openDatabase(first.database_url, 2);
  await setLife(first);
  let is_over = false;
  const answered: string[] = [];
  const clients = Array.from({ length: 12 }, async (_, n) => {
    while (!is_over) {
      const id = await chat(n);
      if (id) answered.push(id);
      else await sleep(50);
    }
  });
  const kills = await killInTurns(LOAD_MS);
  await until(() => answered.length > ANSWERS, 300_000);
  is_over = true;
  await Promise.all(clients);

  // Everything overdue expires by itself once worker and Temporal are back.
  const open = async () => {
    const row = await maybe<{ n: number }>(
      db,
      `select count(*)::int as n from reservations where status = 'open'`,
    ).catch(() => undefined);
    return row?.n;
  };
  await until(async () => (await open()) === 0, 300_000);
  expect((await audit(db)).broken).toEqual([]);
  const sums = await one<{
    balance_nanos: bigint;
    spent_nanos: bigint;
    charged: number;
    twice: number;
  }>(
    db,
    `select w.balance_nanos,
       (select coalesce(sum(actual_cost_nanos), 0)::bigint from reservations) as spent_nanos,
       (select count(*)::int from reservations where actual_cost_nanos > 0) as charged,
       (select count(*)::int from (select 1 from wallet_transactions where phase = 'close' group by reservation_id having count(*) > 1) t) as twice
     from wallets w where w.org_id = :org_id and w.owner_type = 'organization'`,
    { org_id: first.organization_id },
  );
  expect(sums.balance_nanos).toBe(100_000_000_000n - sums.spent_nanos);
  expect(sums.twice).toBe(0);
  // A gateway that is killed between an answer and its settlement loses that charge, and no other.
  const gateway_kills = kills.filter((name) => name === 'gateway').length;
  expect(sums.charged).toBeGreaterThanOrEqual(answered.length - gateway_kills * 12);
  expect(await many(db, 'select id from outbox where parked_at is not null')).toEqual([]);
  await db.destroy();
}, 1_200_000);

test('everything killed once in the middle of a hold: the surviving gateway still answers, and the other ticket can be redeemed', async () => {
  const { gateway_urls, temporal_address, keys } = demo();
  const [survivor = '', doomed = ''] = gateway_urls;
  // The process that the test before has killed last may still be starting.
  await until(async () => (await Promise.all(gateway_urls.map(isReady))).every(Boolean), 300_000);
  await until(async () => (await Promise.all(demo().api_urls.map(isReady))).every(Boolean));
  await drainWallet();
  const held = hold(survivor, 'held throughout');
  await until(async () => (await openTickets()).length === 1);
  const lost = hold(doomed, 'held by the killed gateway');
  await until(async () => (await openTickets()).length === 2);
  const forgotten = await hold(survivor, 'asked and left', { 'x-svc-hold-ms': '0' });
  const { id: third } = forgotten.body.cost_ticket;
  await until(async () => (await openTickets()).length === 3);

  const store = path.join(path.dirname(demo_file), 'temporal');
  const { pids } = demo();
  await killed(...pids.apis);
  await killed(pids.worker_lifecycle as number, pids.temporal as number);
  for (const name of readdirSync(store)) rmSync(path.join(store, name), { force: true });
  // There is one again once an API is back.
  await killed(await answerOf(async () => pidOf('backend') ?? undefined));
  await killed(pids.gateways[1] as number);
  expect((await lost.catch(() => undefined))?.status).not.toBe(200);

  // The store is gone, but the row is there: the verdict starts its workflow.
  const tickets = await answerOf(async () => {
    const open = await openTickets();
    return open.length === 3 ? open : undefined;
  });
  const [, second, first] = tickets;
  // A 503 says to look before repeating: the verdict may have been recorded after all.
  let answer: Answered | undefined;
  const isApproved = async () => {
    answer = await post(`/v1/cost-tickets/${first?.id}/approve`, {});
    return answer.status === 200 || answer.body.error?.code === 'ticket_redeemed';
  };
  // What it was told last says why it never was.
  await until(isApproved, 300_000).catch(() => expect(answer).toMatchObject({ status: 200 }));
  expect(await held).toMatchObject({ status: 200, body: { choices: expect.any(Array) } });

  const credit = { target_wallet_owner_type: 'organization', amount: 1 };
  expect((await post('/v1/wallets/credit', credit)).status).toBe(201);
  const bring = { 'x-svc-cost-ticket': second?.id };
  const redeemed = await answerOf(async () => {
    const answer = await hold(doomed, 'held by the killed gateway', bring).catch(() => undefined);
    return answer?.status === 200 ? answer : undefined;
  });
  expect(redeemed.body.choices).toHaveLength(1);

  const connection = await Connection.connect({ address: temporal_address });
  const client = new Client({ connection, namespace: 'svc' });
  const isBack = () =>
    client.workflow
      .getHandle(third)
      .describe()
      .catch(() => undefined);
  await until(async () => (await isBack())?.status.name === 'RUNNING', 300_000);
  await connection.close();
  const db = openDatabase(demo().database_url, 2);
  expect((await audit(db)).broken).toEqual([]);
  await db.destroy();
  expect(keys.billing_admin).toBe(demo().keys.billing_admin);
}, 1_200_000);

function demo(): Demo {
  return JSON.parse(readFileSync(demo_file, 'utf8'));
}

/** A short life, so that abandoned holds lapse within the test. */
async function setLife({ api_url, keys, organization_id }: Demo): Promise<void> {
  const answer = await fetch(
    `${api_url}/v1/admin/organizations/${organization_id}/wallet-settings`,
    {
      method: 'PUT',
      headers: {
        authorization: `Bearer ${keys.platform_admin}`,
        'content-type': 'application/json',
      },
      body: JSON.stringify({ reservation_ttl_seconds: LIFE_SECONDS }),
    },
  );
  expect(answer.status).toBe(200);
}

/**
 * One priced call, every other one a stream, at one of the gateways; its id if it was answered to
 * the end.
 */
async function chat(n: number): Promise<string | undefined> {
  try {
    const { gateway_urls, keys, models } = demo();
    const is_stream = n % 2 === 1;
    const answer = await fetch(`${gateway_urls[n % gateway_urls.length]}/v1/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${keys.gateway}`, 'content-type': 'application/json' },
      body: JSON.stringify({
        model: models[0],
        stream: is_stream,
        max_tokens: 64,
        messages: [{ role: 'user', content: `Hello ${n}` }],
      }),
    });
    const text = await answer.text();
    const is_whole = is_stream ? text.includes('[DONE]') : text.includes('"usage"');
    return answer.status === 200 && is_whole ? text.slice(0, 60) : undefined;
  } catch {
    return undefined; // Refused, cut or lost, as the killed process leaves its clients.
  }
}

const targets = ['gateway', 'api', 'worker', 'backend', 'temporal', 'gateway', 'api'] as const;

/** Kills one process after the other with SIGKILL, at moments that nothing waits for. */
async function killInTurns(total_ms: number): Promise<string[]> {
  const kills: string[] = [];
  const end = performance.now() + total_ms;
  for (let turn = 0; performance.now() < end || kills.length < KILLS; turn += 1) {
    await sleep(KILL_EVERY_MS * (0.5 + random()));
    const name = targets[turn % targets.length] as (typeof targets)[number];
    const pid = pidOf(name);
    if (pid && kill(pid)) kills.push(name);
  }
  return kills;
}

/** Kills processes, and waits until they have ended. */
async function killed(...pids: number[]): Promise<void> {
  for (const pid of pids) kill(pid);
  await until(() => pids.every(isGone));
}

function pidOf(name: (typeof targets)[number]): number | null | undefined {
  const { pids } = demo();
  switch (name) {
    case 'gateway':
      return pick(random, pids.gateways);
    case 'api':
      return pick(random, pids.apis);
    case 'worker':
      return pids.worker_lifecycle;
    case 'temporal':
      return pids.temporal;
    case 'backend':
      return pids.postgres && backendOf(pids.postgres);
  }
}

const post = (route: string, body: object) =>
  send(demo().api_url + route, demo().keys.billing_admin, body).catch(() => ({
    status: 0,
    body: {},
  }));

function hold(gateway_url: string, words: string, headers: object = {}): Promise<Answered> {
  const { keys, models } = demo();
  const body = { model: models[0], max_tokens: 64, messages: [{ role: 'user', content: words }] };
  const patience = { 'x-svc-hold-ms': '600000', ...headers };
  return send(`${gateway_url}/v1/chat/completions`, keys.gateway, body, patience);
}

/** The open tickets, newest first. */
async function openTickets(): Promise<{ id: string }[]> {
  const { api_url, keys } = demo();
  const url = `${api_url}/v1/cost-tickets?status=open`;
  const answer = await send(url, keys.billing_admin, undefined).catch(() => undefined);
  return answer?.body.tickets ?? [];
}

/** Moves all that the demo organization has to a team that no key draws on. */
async function drainWallet(): Promise<void> {
  const { api_url, keys, savings_team_id: team_id } = demo();
  const { body: wallets } = await send(`${api_url}/v1/wallets`, keys.billing_admin, undefined);
  for (const wallet of wallets.wallets) {
    if (wallet.balance <= 0) continue;
    if (wallet.owner_type !== 'organization')
      throw new Error('The demo keeps its money in one wallet.');
    const body = { team_id, amount: wallet.balance };
    expect((await post('/v1/wallets/allocate', body)).status).toBe(200);
  }
}

/** Repeats a question until it has an answer. */
async function answerOf<T>(ask: () => Promise<T | undefined>): Promise<T> {
  let answer: T | undefined;
  await until(async () => {
    answer = await ask();
    return answer !== undefined;
  }, 300_000);
  return answer as T;
}
