import { Worker } from '@temporalio/worker';
import { blankPrice } from '../../domain/ledger/pricing';
import { many, one } from '../../domain/sql';
import { listen } from '../../runtime/listen';
import { createLog } from '../../runtime/log';
import { openTracing } from '../../runtime/telemetry/open';
import type { Tracing } from '../../runtime/telemetry/spans';
import { createModelServer } from '../../sandbox/models/server';
import { bundleWorkflows } from '../../workers/bundle';
import { tracedBy } from '../../workers/tracing';
import { refusal, serve, type Tenant } from '../support/api';
import { openTestDatabase } from '../support/database';
import { chat, openTestGateway, post, type TestGateway } from '../support/gateway';
import { gatewayToken, makeKey } from '../support/keys';
import { makePrice, reserveBody } from '../support/ledger';
import { makeBuyer, openSandboxes, wish } from '../support/payments/world';
import { openReceiver, type Receiver } from '../support/telemetry/otlp';
import {
  createTrace,
  expectWhole,
  nameOf,
  parentOf,
  type Trace,
  traceOf,
} from '../support/telemetry/traces';
import { until } from '../support/until';
import { openWorker, type TestWorker } from '../support/worker';

// One trace over every process: gateway, control plane, workflow and activity, into a real
// receiver.

const route = '/v1/chat/completions';
const closing: (() => unknown)[] = [];

let receiver: Receiver;
let api: Awaited<ReturnType<typeof serve>>;
let db: Awaited<ReturnType<typeof openTestDatabase>>['db'];
let worker: TestWorker;
let gateway: TestGateway;
let machine: string;

beforeAll(async () => {
  process.env.TEST_MODELS_KEY = 'upstream-secret';
  receiver = await openReceiver();
  process.env.TEST_OTLP = receiver.url;
  const database = await openTestDatabase(20);
  db = database.db;
  worker = await openWorker(db, undefined, await tracing('worker_lifecycle'));
  api = await serve({ db, temporal: worker.temporal, tracing: await tracing('api') });
  const models = createModelServer();
  const models_url = `http://127.0.0.1:${await listen(models, 0)}`;
  const price = { model: 'gpt-4o-mini', input_per_1m: 15, output_per_1m: 60 };
  await makePrice(db, { ...blankPrice, tiers: null, ...price });
  machine = await gatewayToken(db);
  gateway = await openTestGateway({
    api_urls: [api.url],
    models_url,
    control_plane_token: machine,
    settings: {
      cost_tickets: { hold_ms: 300_000 },
      observability: { otlp: { enabled: true, endpoint_env: 'TEST_OTLP' } },
    },
    target: {},
  });
  const sandboxes = await openSandboxes(db, api.url);
  closing.unshift(
    () => gateway.close(),
    () => api.close(),
    () => worker.close(),
    ...[models, ...Object.values(sandboxes).map(({ server }) => server)].flatMap((server) => [
      () => server.closeAllConnections(),
      () => server.close(),
    ]),
    () => database.close(),
  );
  closing.push(() => receiver.close());
});

afterAll(async () => {
  for (const end of closing) await end();
});

async function tracing(service: string): Promise<Tracing> {
  const log = createLog('test', 'silent');
  const made = await openTracing({ service, endpoint: receiver.url, log });
  closing.push(() => made.close());
  return made;
}

async function waiting({ org_id }: Tenant): Promise<boolean> {
  const rows = await many(
    db,
    'select 1 from ticket_waiters where org_id = :org_id and answer is null',
    { org_id },
  );
  return rows.length > 0;
}

/** A call that no wallet covers, which waits; `since` it was seen to. */
async function hold(client: Trace, tenant: Tenant) {
  const key = await makeKey(db, tenant.org_id, { token_type: 'gateway' });
  const answer = post(gateway.url + route, key, chat('Say hello.'), client.headers);
  await until(() => waiting(tenant));
  const since = performance.now();
  await sendAll();
  const { id } = await one<{ id: string }>(
    db,
    'select id from cost_tickets where org_id = :org_id',
    { org_id: tenant.org_id },
  );
  return { answer, ticket_id: id, since };
}

/** Sends the outbox until it is empty. */
function sendAll(): Promise<void> {
  return until(async () => {
    await worker.dispatch();
    return (await many(db, 'select 1 from outbox')).length === 0;
  });
}

test('a held call that is topped up is one trace over gateway, control plane, workflow and activities', async () => {
  const tenant = await makeBuyer(db);
  const client = createTrace();
  const { answer, ticket_id, since } = await hold(client, tenant);
  const held_ms = performance.now() - since;
  const credit = { target_wallet_owner_type: 'organization', amount: 5 };
  const paid = await api.call('post', '/v1/wallets/credit', {
    key: tenant.billing_key,
    body: credit,
  });
  expect(paid.status).toBeLessThan(300);
  expect((await answer).status).toBe(200);
  await until(
    async () => (await many(db, "select 1 from outbox where signal = 'resolved'")).length > 0,
  );
  await sendAll();

  const workflow = 'worker_lifecycle: workflow costTicket';
  const spans = await traceOf(receiver, client, [
    `gateway: POST ${route}`,
    'gateway: reserve',
    'gateway: upstream',
    'api: reserve',
    'api: redeem',
    'api: settle',
    workflow,
    'worker_lifecycle: activity expireTicket',
    'worker_lifecycle: activity showTicket',
  ]);
  expectWhole(spans, client);
  for (const [name, parent] of [
    ['gateway: reserve', `gateway: POST ${route}`],
    ['api: reserve', 'gateway: reserve'],
    ['api: redeem', 'gateway: reserve'],
    ['api: settle', `gateway: POST ${route}`],
    [workflow, 'gateway: reserve'],
    ['worker_lifecycle: activity expireTicket', workflow],
  ] as const) {
    expect([name, parentOf(spans, name)]).toEqual([name, parent]);
  }
  expect(spans.find(({ name }) => name === 'reserve')).toBeDefined();
  const reserve = spans.find((span) => nameOf(span) === 'gateway: reserve');
  // The wait for money is in it.
  expect(reserve?.duration_ms).toBeGreaterThan(held_ms / 2);
  for (const { attributes } of spans) {
    expect(attributes.identity_proof_method).toBe('gateway_key');
  }
  // The commands of a history do not depend on the trace that it carries.
  const history = await worker.client.workflow.getHandle(ticket_id).fetchHistory();
  expect(Object.keys(startOf(history).header?.fields ?? {})).toEqual(['trace']);
  const code = await bundleWorkflows();
  const { sinks } = tracedBy(undefined);
  await Worker.runReplayHistory({ workflowBundle: { code }, sinks }, history, ticket_id);
});

type History = Awaited<
  ReturnType<ReturnType<TestWorker['client']['workflow']['getHandle']>['fetchHistory']>
>;

function startOf({ events }: History) {
  return events?.[0]?.workflowExecutionStartedEventAttributes ?? {};
}

test("a verdict's step joins the request of the person who gave it", async () => {
  const tenant = await makeBuyer(db);
  const [caller, person] = [createTrace(), createTrace()];
  const { answer, ticket_id } = await hold(caller, tenant);
  const approved = await api.call('post', `/v1/cost-tickets/${ticket_id}/approve`, {
    key: tenant.billing_key,
    body: {},
    headers: person.headers,
  });
  expect(approved.status).toBe(200);
  expect((await answer).status).toBe(200);
  const request = 'api: POST /v1/cost-tickets/:id/approve';
  const step = 'worker_lifecycle: activity recordVerdict';
  const spans = await traceOf(receiver, person, [request, step]);
  expectWhole(spans, person);
  expect(parentOf(spans, step)).toBe(request);
  await sendAll();
});

test('a payment workflow joins the request that made the checkout', async () => {
  const tenant = await makeBuyer(db);
  const [buyer, later] = [createTrace(), createTrace()];
  const made = await api.call('post', '/v1/payments/create-checkout', {
    key: tenant.member_key,
    body: wish,
    headers: buyer.headers,
  });
  expect(made.status).toBe(201);
  const path = `/v1/payments/sessions/${made.body.payment_session_id}/cancel`;
  const canceled = await api.call('post', path, { key: tenant.member_key, headers: later.headers });
  expect(canceled.status).toBe(200);
  const request = 'api: POST /v1/payments/create-checkout';
  const workflow = 'worker_lifecycle: workflow paymentSession';
  const step = 'worker_lifecycle: activity openCheckout';
  const spans = await traceOf(receiver, buyer, [request, workflow, step]);
  expectWhole(spans, buyer);
  expect([parentOf(spans, workflow), parentOf(spans, step)]).toEqual([request, workflow]);
  const found = spans.find((span) => nameOf(span) === request);
  expect(found?.attributes).toMatchObject({
    org_id: tenant.org_id,
    'http.response.status_code': 201,
  });
  await traceOf(receiver, later, ['api: POST /v1/payments/sessions/:id/cancel']);
});

test('a repeat in another trace is the same call', async () => {
  const tenant = await makeBuyer(db);
  const credit = { target_wallet_owner_type: 'organization', amount: 5 };
  await api.call('post', '/v1/wallets/credit', { key: tenant.billing_key, body: credit });
  const body = { ...reserveBody(tenant.org_id, 1_000), model: 'gpt-4o-mini' };
  const ask = (path: string, more: object) =>
    api.call('post', `/v1/gateway/wallets/${path}`, { key: machine, body: more });
  const holds: [number, string][] = [];
  for (const trace of [{}, createTrace().headers, createTrace().headers]) {
    const { status, body: hold } = await ask('reserve', { ...body, ...trace });
    holds.push([status, hold.reservation_id]);
  }
  expect(holds).toEqual([0, 1, 2].map(() => [200, holds[0]?.[1]]));
  const settle = { org_id: tenant.org_id, reservation_id: holds[0]?.[1], outcome: 'canceled' };
  for (const { headers } of [createTrace(), createTrace()]) {
    expect((await ask('settle', { ...settle, ...headers })).status).toBe(200);
  }
});

test.each([
  'nonsense',
  `00-${'0'.repeat(32)}-${'1'.repeat(16)}-01`,
  `01-${'1'.repeat(32)}-${'1'.repeat(16)}-01`,
])('an item with the traceparent %s is refused by name', async (traceparent) => {
  const tenant = await makeBuyer(db);
  const body = { ...reserveBody(tenant.org_id, 1_000), traceparent };
  const answer = await api.call('post', '/v1/gateway/wallets/reserve', { key: machine, body });
  expect(refusal(answer)).toEqual({ status: 422, code: 'invalid_field', param: 'traceparent' });
});

test('nothing that is asked of the control plane by machines or probes has a span of its own', async () => {
  const names = new Set(
    receiver.spans.filter(({ service }) => service === 'api').map(({ name }) => name),
  );
  expect([...names].filter((name) => /gateway|health|readyz/.test(name))).toEqual([]);
  expect(names).toContain('POST /v1/wallets/credit');
});

test('no key, body or secret is in any byte that was exported', () => {
  const all = Buffer.concat(receiver.bytes).toString('latin1');
  expect(all).toContain('costTicket');
  for (const secret of [
    machine,
    'svc_ak_',
    'svc_gk_',
    'Say hello',
    'upstream-secret',
    'checkout_state',
  ]) {
    expect([secret, all.includes(secret)]).toEqual([secret, false]);
  }
});
