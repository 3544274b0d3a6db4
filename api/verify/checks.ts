import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Migrations, migrationsOf } from '../../migrations';
import { openDatabase } from '../../runtime/database';
import { rowOf } from '../../runtime/version';
import { failedWords } from '../../temporal/problems';
import { schedule_queues } from '../../temporal/queues';
import { ask, counted, Fault, Late, NotChecked, read } from './client';
import type { Deployment } from './deployment';
import { cancelAHold, denyTicketOf } from './hold';
import { keys } from './keys';
import { exportAStatement } from './statement';

/** One question about a deployment: words for what is good, a Fault for what is not. */
export interface Check {
  name: string;
  run: (deployment: Deployment) => Promise<string>;
}

/** In the order in which they are asked: what stands on others comes after them. */
export const checks: readonly Check[] = [
  { name: 'ready', run: ready },
  { name: 'keys', run: keys },
  { name: 'versions', run: versions },
  { name: 'schema', run: schema },
  { name: 'workers', run: workers },
  { name: 'outbox', run: outbox },
  { name: 'fleet', run: fleet },
  { name: 'policy', run: policy },
  { name: 'hold', run: cancelAHold },
  { name: 'audit', run: audit },
  { name: 'export', run: exportAStatement },
];

const EVENT_MS = 10_000;
const APPLY_MS = 10_000;
// A gateway that was killed stays in the list for a day; it is no fault of what runs now.
const GONE_MS = 5 * 60_000;
const LOOK_MS = 200;
// Large ledgers take longer to prove than most questions.
const AUDIT_MS = 24_000;

/** The first API answers what all of them would: they share the database. */
function at({ apis }: Deployment, path: string): string {
  return `${apis[0]?.url}${path}`;
}

export async function ready({ apis, gateways, consoles }: Deployment): Promise<string> {
  for (const { url } of [...apis, ...gateways, ...consoles]) await read('GET', `${url}/readyz`);
  const count = [
    ...[counted(apis.length, 'API'), counted(gateways.length, 'gateway')],
    ...(consoles.length > 0 ? [counted(consoles.length, 'console')] : []),
  ];
  return `all are ready: ${count.join(', ')}`;
}

export async function versions(deployment: Deployment): Promise<string> {
  const { apis, gateways, consoles } = deployment;
  const [first] = new Set(apis.map(({ version }) => version));
  const odd = apis.find(({ version }) => version !== first);
  if (odd)
    throw new Fault(`APIs are of two versions, ${first} and ${odd.version}: end the upgrade.`);
  for (const api of apis) {
    const row = rowOf(api.version);
    if (row === undefined || row.status === 'end of life')
      throw new Fault(`The API at ${api.url} is ${api.version}, which is not supported any more.`);
    for (const { places, minors } of [
      { places: gateways, minors: row.gateways },
      { places: consoles, minors: row.consoles },
    ])
      for (const { kind, url, version } of places) {
        if (!minors.some((one) => version.startsWith(`${one}.`)))
          throw new Fault(
            `The ${kind} at ${url} is ${version}; API ${api.version} works with ${minors.join(' and ')}.`,
          );
      }
  }
  const of = [...new Set(gateways.map(({ version }) => version))].join(' and ');
  return `API ${first} with gateways ${of}`;
}

/**
 * An API migrates before it listens; a database that was restored since may lack some again. Each
 * API is asked; beside them the database itself, if it is named.
 */
export async function schema(deployment: Deployment): Promise<string> {
  const { apis, database_url, platform_key: key } = deployment;
  const told: Migrations[] = [];
  for (const { url } of apis) {
    const status = await read('GET', `${url}/v1/admin/workers/status`, { key });
    // An API of an older version does not say.
    if (status.migrations !== undefined) told.push(status.migrations);
  }
  if (database_url !== undefined) told.push(await migrationsAt(database_url));
  const [first] = told;
  if (first === undefined)
    throw new NotChecked(
      'The API does not say its migrations, and DATABASE_URL is not set to compare them.',
    );
  const { pending } = told.find((one) => one.pending.length > 0) ?? first;
  if (pending.length > 0)
    throw new Fault(
      `${counted(pending.length, 'migration')} ${pending.length === 1 ? 'is' : 'are'} pending, the first is ${pending[0]}: start an API of this version.`,
    );
  return `${first.applied} migrations, none is pending`;
}

async function migrationsAt(database_url: string): Promise<Migrations> {
  const db = openDatabase(database_url, 1, 'verify');
  try {
    return await migrationsOf(db);
  } catch (error) {
    throw new Fault(`The database does not say its migrations: ${(error as Error).message}`);
  } finally {
    await db.destroy();
  }
}

interface WorkersStatus {
  problems: string[];
  workers: { name: string; queues: Queue[] }[];
  schedules: { id: string; last_ended_at: string | null; last_result: string | null }[];
}

interface Queue {
  task_queue: string;
  failed_workflows_last_day: number;
  /** An API of an older version does not say. */
  last_failed_at?: string | null;
}

/**
 * Workers poll, and schedules run. A failed workflow counts unless a schedule of its own queue has
 * succeeded since: broken workers break their schedules too, and say nothing of others.
 */
export async function workers(deployment: Deployment): Promise<string> {
  const { platform_key: key } = deployment;
  const url = at(deployment, '/v1/admin/workers/status');
  const status: WorkersStatus = await read('GET', url, { key });
  const past = status.workers
    .flatMap((worker) => worker.queues)
    .filter((queue) => queue.failed_workflows_last_day > 0 && isOver(queue, status));
  const isPast = (words: string) =>
    past.some(({ task_queue }) => words.includes(failedWords(task_queue)));
  // What was given up has a row of its own.
  const problems = status.problems.filter((words) => !words.includes('given up') && !isPast(words));
  if (problems.length > 0) throw new Fault(problems.join(' '));
  const named = status.workers.map(({ name }) => name).join(', ');
  const count = past.reduce((sum, queue) => sum + queue.failed_workflows_last_day, 0);
  const earlier = count > 0 ? `; ${counted(count, 'workflow')} failed earlier within a day` : '';
  return `${named} poll, and the schedules run${earlier}`;
}

/** True if a schedule of the queue has succeeded since its newest workflow failed. */
function isOver({ task_queue, last_failed_at }: Queue, { schedules }: WorkersStatus): boolean {
  const queue_of: Record<string, string | undefined> = schedule_queues;
  const good = schedules.filter(
    ({ id, last_result }) => queue_of[id] === task_queue && last_result === 'completed',
  );
  const well_at = Math.max(0, ...good.map(({ last_ended_at }) => Date.parse(last_ended_at ?? '')));
  return Date.parse(last_failed_at ?? '') <= well_at;
}

async function outbox(deployment: Deployment): Promise<string> {
  const { platform_key: key } = deployment;
  const status = await read('GET', at(deployment, '/v1/admin/workers/status'), { key });
  const { parked, waiting } = status.outbox;
  if (parked > 0)
    throw new Fault(
      `${counted(parked, 'message')} to Temporal ${parked === 1 ? 'was' : 'were'} given up: GET /v1/admin/outbox?status=parked.`,
    );
  return `none was given up, ${waiting} on their way`;
}

/** Every gateway that reports, or did so five minutes ago, runs what it is to run. */
async function fleet(deployment: Deployment): Promise<string> {
  const { platform_key: key } = deployment;
  const until = performance.now() + APPLY_MS;
  for (;;) {
    const list = await read('GET', at(deployment, '/v1/admin/gateways'), { key });
    const gateways = list.gateways.filter((one: Listed) => !isGone(one));
    const odd = gateways.find(({ drift }: Listed) => drift !== 'in_sync');
    if (odd === undefined)
      return `what ${counted(gateways.length, 'gateway')} must run is what runs`;
    if (odd.drift !== 'applying' || performance.now() > until)
      throw new Fault(
        `The gateway ${odd.id} on ${odd.host} is ${odd.drift}: ${odd.error ?? whyOf(odd)}`,
      );
    await sleep(LOOK_MS);
  }
}

interface Listed {
  drift: string;
  seen_at: string;
}

function isGone({ drift, seen_at }: Listed): boolean {
  return drift === 'silent' && Date.now() - Date.parse(seen_at) > GONE_MS;
}

function whyOf({ drift, seen_at }: Listed): string {
  return drift === 'silent'
    ? `no report since ${seen_at}. It died, or does not reach the API; five minutes after that it counts as gone.`
    : 'see GET /v1/admin/gateways.';
}

/** What policy must block is 409 at each gateway, costs nothing, and is among the events. */
export async function policy(deployment: Deployment): Promise<string> {
  const { gateways, gateway_key, platform_key: key, blocked_text, probe } = deployment;
  const { org_id } = await probe.owner();
  for (const { url } of gateways) {
    const label = `verify-${randomUUID()}`;
    const { data } = await read('GET', `${url}/v1/models`, { key: gateway_key });
    if (data.length === 0) throw new Fault(`The gateway at ${url} serves this key no model.`);
    const answer = await ask('POST', `${url}/v1/chat/completions`, {
      key: gateway_key,
      headers: { 'x-request-id': label, 'x-svc-hold-ms': '0' },
      body: {
        model: data[0].id,
        max_tokens: 1,
        messages: [{ role: 'user', content: blocked_text }],
      },
    });
    await denyTicketOf(answer.body, { api_url: deployment.apis[0]?.url, platform_key: key });
    if (answer.status !== 409)
      throw new Fault(
        `The gateway at ${url} answers ${answer.status} to ${JSON.stringify(blocked_text)}, which policy must block with 409. Another text: --blocked TEXT.`,
      );
    await untilTold(deployment, { org_id, label, url });
  }
  return `blocked with 409 at ${counted(gateways.length, 'gateway')}, and among the events`;
}

interface Blocked {
  org_id: string;
  label: string;
  /** Of the gateway. */
  url: string;
}

/** Waits until the block of a call is among the events of its organization. */
async function untilTold(deployment: Deployment, { org_id, label, url }: Blocked): Promise<void> {
  const { platform_key: key } = deployment;
  const page = at(deployment, `/v1/events?org_id=${org_id}&type=request.blocked`);
  // By its label alone, as others of a busy organization fill a page since. An API of 1.4 finds
  // calls by their own ids only: there it is sought on the page.
  const lists = [`${page}&request_id=${label}`, page];
  const until = performance.now() + EVENT_MS;
  for (;;) {
    for (const list of lists) {
      const { events } = await read('GET', list, { key });
      if (JSON.stringify(events).includes(label)) return;
    }
    if (performance.now() > until)
      throw new Fault(
        `The block at ${url} is not among the events after ${EVENT_MS / 1_000} s: they do not flow.`,
      );
    await sleep(LOOK_MS);
  }
}

export async function audit(deployment: Deployment, within_ms = AUDIT_MS): Promise<string> {
  const { platform_key: key } = deployment;
  const asked = read('GET', at(deployment, '/v1/admin/audit'), { key, within_ms });
  const { broken } = await asked.catch((error) => {
    if (!(error instanceof Late)) throw error;
    throw new NotChecked(
      `The ledger is too large to be proved within ${within_ms / 1_000} s: the schedule audit does it each night, npm run audit now.`,
    );
  });
  const [first] = broken;
  if (first)
    throw new Fault(`The ledger is broken in ${counted(broken.length, 'place')}: ${first.detail}`);
  return 'the ledger is whole';
}
