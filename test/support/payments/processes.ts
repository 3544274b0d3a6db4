import { chmodSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { Client, Connection } from '@temporalio/client';
import { request } from 'undici';
import { audit } from '../../../domain/ledger/audit';
import { putConfig } from '../../../domain/payments/config';
import type { ProviderName } from '../../../domain/payments/currencies';
import { type Db, many, one } from '../../../domain/sql';
import { root } from '../../../runtime/root';
import { processAuthority } from '../../../sandbox/payments/a/authority';
import { freePorts } from '../../../sandbox/processes/ports';
import {
  launch,
  type Process,
  type Program,
  type Watch,
} from '../../../sandbox/processes/processes';
import { NAMESPACE, prepareTemporal } from '../../../sandbox/servers/temporal';
import { type CallApi, caller, secrets, secrets_key } from '../api';
import { openTestDatabase } from '../database';
import { platformKey } from '../keys';
import { scratchRoot } from '../scratch';
import { until } from '../until';
import { openSandboxes, type Sandbox } from './world';

// A busy machine takes ten times as long to start a process as a quiet one.
const READY_MS = 180_000;

/** A process of its own, which can be killed at any moment and started again. */
interface Part {
  start: () => Promise<void>;
  /** SIGKILL; resolves when it is gone. */
  kill: () => Promise<void>;
  /** Stops it from answering without ending it. */
  pause: () => void;
  resume: () => void;
}

export interface PaymentProcesses {
  db: Db;
  call: CallApi;
  admin: string;
  client: Client;
  sandboxes: Record<ProviderName, Sandbox>;
  api: Part;
  worker: Part;
  temporal: Part;
  use: (provider: ProviderName) => Promise<void>;
  api_url: string;
  /** What its processes are started with. */
  env: NodeJS.ProcessEnv;
  /** What the API and the worker have written, line by line. */
  lines: string[];
  /** Deletes all that Temporal has stored; it must not run. */
  forgetStore: () => void;
  /** Stalls the next write of an organization at a step, and never commits it. */
  stall: (org_id: string, step: Moment) => Promise<void>;
  /**
   * Ends the stalled transactions without a commit, as the database does when their client is gone.
   */
  undoStalls: () => Promise<void>;
  close: () => Promise<void>;
}

/**
 * The next record: the checkout, a move of the session, the refund's debit, the provider's answer
 * to it.
 */
export type Moment = 'opened' | 'capturing' | 'captured' | 'completed' | 'debited' | 'answered';

/**
 * API, worker and Temporal as processes, with further variables; both sandbox providers in this
 * one. The database is a copy of that template. Closing proves the ledger.
 */
export async function openPaymentProcesses(
  more: Record<string, string> = {},
  template = process.env.TEST_DATABASE_URL,
): Promise<PaymentProcesses> {
  const folder = mkdtempSync(path.join(scratchRoot(), 'svc-payments-'));
  chmodSync(folder, 0o755);
  const { db, url: DATABASE_URL, close: dropDatabase } = await openTestDatabase(10, template);
  await many(db, stalling);
  const [port = 0, ui_port = 0, api_port = 0] = await freePorts(3);
  const TEMPORAL_ADDRESS = `127.0.0.1:${port}`;
  const PAYMENT_CA_FILES = path.join(folder, 'authority.pem');
  writeFileSync(PAYMENT_CA_FILES, (await processAuthority()).cert);
  const env = {
    ...process.env,
    DATABASE_URL,
    TEMPORAL_ADDRESS,
    TEMPORAL_NAMESPACE: NAMESPACE,
    SVC_SECRETS_KEY: secrets_key,
    PAYMENT_HOSTS: '127.0.0.1',
    PAYMENT_CA_FILES,
    API_PORT: String(api_port),
    LOG_LEVEL: 'info',
    ...more,
  };
  const lines: string[] = [];
  const temporal = createPart(async () => {
    const prepared = await prepareTemporal({ folder, port, ui_port });
    return { ...prepared, ready_timeout_ms: READY_MS };
  });
  const api = createPart(async (watch) => {
    return program('api/main.ts', env, { words: 'api listens', watch, lines });
  });
  const worker = createPart(async (watch) => {
    const heard = { words: 'worker_lifecycle runs', watch, lines };
    return program('workers/lifecycle.ts', env, heard);
  });
  await Promise.all([temporal.start(), api.start(), worker.start()]);
  const api_url = `http://127.0.0.1:${api_port}`;
  const sandboxes = await openSandboxes(db, api_url);
  const connection = Connection.lazy({ address: TEMPORAL_ADDRESS });
  const close = async () => {
    for (const { server } of Object.values(sandboxes)) {
      server.closeAllConnections();
      server.close();
    }
    await connection.close();
    await Promise.all([worker.kill(), api.kill(), temporal.kill()]);
    const { broken } = await audit(db);
    await dropDatabase();
    rmSync(folder, { recursive: true, force: true });
    expect(broken).toEqual([]);
  };
  return {
    db,
    call: caller(api_url),
    admin: await platformKey(db),
    sandboxes,
    api,
    worker,
    temporal,
    client: new Client({ connection, namespace: NAMESPACE }),
    api_url,
    env,
    lines,
    use: async (active_provider) => void (await putConfig(db, secrets, { active_provider })),
    forgetStore: () => {
      for (const name of readdirSync(folder)) rmSync(path.join(folder, name), { force: true });
    },
    stall: async (org_id, step) =>
      void (await many(db, 'insert into stalls values (:org_id, :step)', { org_id, step })),
    undoStalls: async () => {
      await many(db, 'delete from stalls');
      await many(
        db,
        `select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and ${sleeping}`,
      );
      await until(async () => (await stalledCount(db)) === 0);
    },
    close,
  };
}

const sleeping = `wait_event = 'PgSleep'`;

/** The number of transactions that stand still at a step. */
export async function stalledCount(db: Db): Promise<number> {
  const { n } = await one<{ n: number }>(
    db,
    `select count(*)::int as n from pg_stat_activity where datname = current_database() and ${sleeping}`,
  );
  return n;
}

const stalling = `
  create table stalls (org_id text, step text);
  create function stall() returns trigger language plpgsql as $$
  declare
    o jsonb := to_jsonb(old);
    n jsonb := to_jsonb(new);
  begin
    if exists (select from stalls s where s.org_id = n ->> 'org_id' and s.step = case
        when n ->> 'debited_at' is distinct from o ->> 'debited_at' then 'debited'
        when n ->> 'provider_refund_id' is distinct from o ->> 'provider_refund_id' then 'answered'
        when n ->> 'provider_order_id' is distinct from o ->> 'provider_order_id' then 'opened'
        when n ->> 'status' is distinct from o ->> 'status' then n ->> 'status' end) then
      perform pg_sleep(600);
    end if;
    return new;
  end $$;
  create trigger stall before update on payment_sessions for each row execute function stall();
  create trigger stall before update on payment_refunds for each row execute function stall()`;

function createPart(prepare: (watch: Watch) => Promise<Program>): Part {
  let running: Process | undefined;
  const signal = (name: NodeJS.Signals) => {
    if (running) process.kill(running.pid, name);
  };
  return {
    async start() {
      const watch: Watch = {};
      running = await launch(await prepare(watch), watch);
    },
    async kill() {
      signal('SIGKILL');
      await running?.ended;
      running = undefined;
    },
    pause: () => signal('SIGSTOP'),
    resume: () => signal('SIGCONT'),
  };
}

/** A main file of ours, ready once it has said these words. */
function program(
  file: string,
  env: NodeJS.ProcessEnv,
  { words, watch, lines }: { words: string; watch: Watch; lines: string[] },
): Program {
  let isReady = false;
  watch.onLine = (line) => {
    lines.push(line);
    isReady ||= line.includes(words);
  };
  return {
    name: file,
    command: process.execPath,
    args: ['run.cjs', file],
    env,
    cwd: root,
    stop_signals: ['SIGTERM', 'SIGKILL'],
    isReady: async () => isReady,
    ready_timeout_ms: READY_MS,
  };
}

/** The requests that arrived at a provider and have no answer yet. */
export async function unanswered({ url }: Sandbox): Promise<string[]> {
  const { requests } = (await (await request(`${url}/sandbox/requests`)).body.json()) as {
    requests: { path: string; body: string; status: number | null }[];
  };
  return requests
    .filter(({ status }) => status === null)
    .map((one) => `${one.path} ${decodeURIComponent(one.body)}`);
}

/** The number of times that money was taken for an order, by the provider's own webhooks. */
export async function capturesOf({ url }: Sandbox, order: string): Promise<number> {
  const { events } = (await (await request(`${url}/sandbox/events`)).body.json()) as {
    events: { order_id: string; type: string }[];
  };
  const isCapture = ({ type }: { type: string }) =>
    type === 'PAYMENT.CAPTURE.COMPLETED' || type === 'checkout.session.completed';
  return events.filter((event) => event.order_id === order && isCapture(event)).length;
}
