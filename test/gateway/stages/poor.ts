import { many, one } from '../../../domain/sql';
import { type CallApi, serve } from '../../support/api';
import {
  chat,
  gatewayKey,
  openWorld,
  post,
  type TestGateway,
  type World,
} from '../../support/gateway';
import { makeKey } from '../../support/keys';
import { credit, makeOrg, type TestOrg } from '../../support/ledger';
import { until } from '../../support/until';
import { openWorker, type TestWorker } from '../../support/worker';

// A world whose gateway holds calls that nobody has paid for. A test file that imports this also
// gets its hooks.

export let world: World;
export let gateway: TestGateway;
let worker: TestWorker;
export let approvers: Awaited<ReturnType<typeof serve>>;
let call: CallApi;

export const CHAT = '/v1/chat/completions';

beforeAll(async () => {
  world = await openWorld();
  gateway = await world.openGateway({ settings: { cost_tickets: { hold_ms: 600_000 } } });
  worker = await openWorker(world.api.db);
  approvers = await serve({ db: world.api.db, temporal: worker.temporal });
  ({ call } = approvers);
});

afterAll(async () => {
  await approvers.close();
  await worker.close();
  await world.close();
});

export interface Poor extends TestOrg {
  key: string;
  key_id: string;
  billing_key: string;
}

/** An organization without money, with a gateway key and somebody who may bill. */
export async function makePoor(): Promise<Poor> {
  const { api } = world;
  const org = await makeOrg(api.db);
  const key = await gatewayKey(api, org.org_id);
  const { id: key_id } = await one<{ id: string }>(
    api.db,
    `select id from tokens where org_id = :org_id and token_type = 'gateway'`,
    { org_id: org.org_id },
  );
  const billing_key = await makeKey(api.db, org.org_id, { scopes: ['org:billing'] });
  return { ...org, key, key_id, billing_key };
}

export const ask = (poor: Poor, words: string, headers: Record<string, string> = {}) =>
  post(gateway.url + CHAT, poor.key, chat(words), headers);

export async function waiting({ org_id }: Poor): Promise<number> {
  const rows = await many(
    world.api.db,
    `select 1 from ticket_waiters where org_id = :org_id and answer is null and until > clock_timestamp()`,
    { org_id },
  );
  return rows.length;
}

export const untilWaiting = (poor: Poor, calls = 1) =>
  until(async () => (await waiting(poor)) === calls);

export async function ticketsOf({ billing_key }: Poor) {
  return (await call('get', '/v1/cost-tickets', { key: billing_key })).body.tickets;
}

export async function decide(poor: Poor, verb: 'approve' | 'deny', body: object = {}) {
  const [ticket] = await ticketsOf(poor);
  const path = `/v1/cost-tickets/${ticket.id}/${verb}`;
  const ask = () => call('post', path, { key: poor.billing_key, body });
  let answer = await ask();
  // A machine that is busy with other tests lets Temporal wait: people repeat what was 503.
  for (let tries = 1; answer.status === 503 && tries < 5; tries += 1) answer = await ask();
  return answer;
}

export const topUp = (poor: Poor, nanos = 1_000_000_000n) =>
  credit(world.api.db, poor.org_id, poor.org_wallet, nanos);
