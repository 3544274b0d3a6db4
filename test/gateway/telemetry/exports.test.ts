import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import pino from 'pino';
import type { Call } from '../../../gateway/call/call';
import { openConfiguration } from '../../../gateway/configuration';
import { openTelemetry } from '../../../gateway/telemetry/exports';
import { createLog } from '../../../runtime/log';
import { arrivals, chat, forgetArrivals, openWorld, post, type World } from '../../support/gateway';
import { openAtMinute } from '../../support/limits';
import { openReceiver, type ReceivedSpan, type Receiver } from '../../support/telemetry/otlp';
import { createTrace } from '../../support/telemetry/traces';
import { until } from '../../support/until';
import { named, otlp } from './traces';

const route = '/v1/chat/completions';

let world: World;
let receiver: Receiver;

beforeAll(async () => {
  world = await openWorld();
  receiver = await openReceiver();
  process.env.TEST_OTLP = receiver.url;
});
afterAll(async () => {
  await world.close();
  await receiver.close();
});

/** The spans of one trace once the gateway's own has come, which ends last. */
async function traceOf(of: { trace_id: string }, spans = 3): Promise<ReceivedSpan[]> {
  const found = () => receiver.spans.filter(({ trace_id }) => trace_id === of.trace_id);
  await until(() => found().length >= spans);
  return found();
}

test("a priced call is a span of its client's trace, with its reserve and its upstream below it", async () => {
  const gateway = await world.openGateway({ settings: otlp() });
  await forgetArrivals(world.models_url);
  const client = createTrace();
  const answer = await post(gateway.url + route, world.key, chat('Hello'), client.headers);
  expect(answer.status).toBe(200);
  const spans = await traceOf(client);
  const call = named(spans, `POST ${route}`);
  expect(call).toMatchObject({ service: 'gateway', parent_span_id: client.span_id, kind: 2 });
  expect(call.attributes).toMatchObject({
    identity_proof_method: 'gateway_key',
    org_id: world.org.org_id,
    family: 'chat_completions',
    provider: 'openai',
    model: 'gpt-4o-mini',
    outcome: 'completed',
    is_stream: false,
    'http.response.status_code': 200,
    'identity_context.key_id': expect.any(String),
  });
  expect(call.attributes.request_id).toMatch(/^req_/);
  expect(call.attributes.prompt_tokens).toBeGreaterThan(0);
  for (const name of ['reserve', 'upstream']) {
    expect(named(spans, name).parent_span_id).toBe(call.span_id);
    expect(named(spans, name).duration_ms).toBeLessThanOrEqual(call.duration_ms);
  }
  const { headers } = (await arrivals(world.models_url))[0] ?? {};
  expect(headers).toBeDefined();
  expect(headers).not.toHaveProperty('traceparent');
});

test('a receiver that refuses or hangs costs requests nothing, is told of once, and keeps a stop for 2 s at most', async () => {
  await Promise.all([endureAway('refuses'), endureAway('hangs')]);
});

async function endureAway(how: 'refuses' | 'hangs'): Promise<void> {
  const other = await openReceiver();
  other.mode = 'hangs';
  const endpoint_env = `TEST_OTLP_${how}`;
  process.env[endpoint_env] = other.url;
  if (how === 'refuses') await other.close();
  const lines: { level: number; msg: string }[] = [];
  const log = pino({ level: 'info' }, { write: (line) => void lines.push(JSON.parse(line)) });
  const gateway = await world.openGateway();
  const telemetry = openTelemetry({ limits: gateway.gateway.limits, log });
  const settings = { enabled: true, endpoint_env, export_rate_limit_metrics: true };
  await telemetry.load(settings);
  telemetry.use(settings);
  gateway.gateway.telemetry = telemetry;
  const took: number[] = [];
  const ask = async () => {
    const began_at = performance.now();
    expect((await post(gateway.url + route, world.key, chat('Hello'))).status).toBe(200);
    took.push(performance.now() - began_at);
  };
  for (let at = 0; at < 20; at += 1) await ask();
  // Who waits for the receiver waits three seconds, each time.
  expect(Math.min(...took)).toBeLessThan(2_500);
  await until(() => lines.length > 0);
  await ask();
  const stopped_at = performance.now();
  await telemetry.close();
  expect(performance.now() - stopped_at).toBeLessThan(60_000);
  if (how === 'hangs') await other.close();
  expect(lines.map(({ level, msg }) => [level, msg])).toEqual([
    [40, 'telemetry is dropped, its receiver is away'],
  ]);
  expect(JSON.stringify(lines)).not.toContain('127.0.0.1');
}

test('a traceparent that is none begins a trace of its own', async () => {
  const gateway = await world.openGateway({ settings: otlp() });
  const [zero, one] = ['0'.repeat(32), '1'.repeat(32)];
  const span = '1'.repeat(16);
  const wrong = [
    'nonsense',
    `00-${zero}-${span}-01`,
    `ff-${one}-${span}-01`,
    `00-${one}-${span}-01-x`,
  ];
  const before = receiver.spans.length;
  for (const traceparent of wrong) {
    await post(gateway.url + route, world.key, chat('Hello'), { traceparent });
  }
  await until(() => receiver.spans.length >= before + 3 * wrong.length);
  const calls = receiver.spans.slice(before).filter(({ name }) => name === `POST ${route}`);
  expect(calls.map(({ parent_span_id }) => parent_span_id)).toEqual(wrong.map(() => ''));
  expect(new Set(calls.map(({ trace_id }) => trace_id)).size).toBe(wrong.length);
  for (const { trace_id } of calls) expect([zero, one]).not.toContain(trace_id);
});

test('a trace that its client does not sample is not exported', async () => {
  const gateway = await world.openGateway({ settings: otlp() });
  const [unseen, seen] = [createTrace(), createTrace()];
  const traceparent = unseen.headers.traceparent.replace(/01$/, '00');
  await post(gateway.url + route, world.key, chat('Hello'), { traceparent });
  await post(gateway.url + route, world.key, chat('Hello'), seen.headers);
  await traceOf(seen);
  expect(receiver.spans.filter(({ trace_id }) => trace_id === unseen.trace_id)).toEqual([]);
});

test('an upstream that fails is an error of its attempt, and each attempt has a span', async () => {
  const gateway = await world.openGateway({ settings: { ...otlp(), ...targets() } });
  const client = createTrace();
  const body = chat('Hello [[fault:error status=503]]');
  const { status } = await post(gateway.url + route, world.key, body, client.headers);
  const spans = await traceOf(client, 4);
  const attempts = spans.filter(({ name }) => name === 'upstream');
  expect(attempts).toHaveLength(2);
  for (const { is_error, attributes } of attempts) {
    expect([is_error, attributes['http.response.status_code']]).toEqual([true, 503]);
  }
  const call = named(spans, `POST ${route}`);
  expect(call.attributes).toMatchObject({ outcome: 'failed', 'http.response.status_code': status });
});

function targets() {
  const target = {
    id: 'sandbox',
    provider: 'openai',
    shape: 'openai',
    api_key_env: 'TEST_MODELS_KEY',
    base_url: `${world.models_url}/v1`,
    models: ['gpt-4o-mini'],
  };
  return { providers: { targets: [target], fallback: { retries: 1, backoff_ms: 1 } } };
}

test('without telemetry a call has no span, and its settlement names no trace', async () => {
  const gateway = await world.openGateway();
  const seen: Call[] = [];
  const { calls } = gateway.gateway;
  const add = calls.add.bind(calls);
  calls.add = (call) => {
    seen.push(call);
    return add(call);
  };
  const settled: object[] = [];
  const { control_plane } = gateway.gateway;
  const settle = control_plane.settle;
  control_plane.settle = (settlement, held) => {
    settled.push(settlement);
    settle(settlement, held);
  };
  const { headers } = createTrace();
  expect((await post(gateway.url + route, world.key, chat('Hello'), headers)).status).toBe(200);
  await until(() => settled.length === 1);
  expect(gateway.gateway.telemetry.tracing).toBeUndefined();
  expect(seen.map(({ span, step }) => [span, step])).toEqual([[undefined, undefined]]);
  expect(settled).toMatchObject([{ traceparent: undefined, trace_label: expect.any(String) }]);
});

test('the four metrics have the names, types and values of the limiter', async () => {
  const rate_limits = { per_key: { rpm: 3, tpm: 100_000 } };
  const gateway = await openAtMinute(world, { settings: { rate_limits } });
  // It exports of the limits that it has from its start.
  const telemetry = openTelemetry({
    limits: gateway.gateway.limits,
    log: createLog('test', 'silent'),
  });
  const wanted = { enabled: true, endpoint_env: 'TEST_OTLP', export_rate_limit_metrics: true };
  await telemetry.load(wanted);
  telemetry.use(wanted);
  gateway.gateway.telemetry = telemetry;
  const statuses: number[] = [];
  for (let at = 0; at < 5; at += 1) {
    statuses.push((await post(gateway.url + route, world.key, chat('Hello'))).status);
  }
  expect(statuses).toEqual([200, 200, 200, 429, 429]);
  const stats = gateway.gateway.limits.stats();
  expect(stats).toMatchObject({ requests_allowed_total: 3, requests_rejected_total: 2 });
  receiver.metrics.clear();
  await gateway.gateway.telemetry.close();
  // A busy receiver takes what was sent a little later.
  await until(() => receiver.metrics.size > 0);
  expect(Object.fromEntries(receiver.metrics)).toEqual(
    Object.fromEntries(
      Object.entries(stats).map(([key, value]) => {
        const name = `svc.rate_limit.${key}`;
        return [
          name,
          { name, type: key.endsWith('_total') ? 'counter' : 'gauge', values: [value] },
        ];
      }),
    ),
  );
  expect(stats.remaining_rpm).toBe(0);
  expect(stats.remaining_tpm).toBeLessThan(100_000);
});

test('without limits there is nothing that remains, so no gauge is sent', async () => {
  const gateway = await world.openGateway({ settings: otlp({ export_rate_limit_metrics: true }) });
  receiver.metrics.clear();
  await gateway.gateway.telemetry.close();
  await until(() => receiver.metrics.size > 0);
  expect([...receiver.metrics.values()].map(({ name, values }) => [name, values])).toEqual([
    ['svc.rate_limit.requests_allowed_total', [0]],
    ['svc.rate_limit.requests_rejected_total', [0]],
  ]);
});

test('everything is sent as protobuf to the paths of OTLP', () => {
  expect([...new Set(receiver.requests.map(({ path, type }) => `${path} ${type}`))].sort()).toEqual(
    ['/v1/metrics application/x-protobuf', '/v1/traces application/x-protobuf'],
  );
});

test('a reload turns traces on and off', async () => {
  const gateway = await world.openGateway();
  const admin = gateway.gateway;
  const folder = mkdtempSync(path.join(tmpdir(), 'svc-telemetry-'));
  const file = path.join(folder, 'gateway.yaml');
  const write = (more: object) =>
    writeFileSync(file, JSON.stringify({ ...targets(), cost_tickets: { hold_ms: 0 }, ...more }));
  write({});
  const configuration = openConfiguration(admin, { file, poll_ms: 60_000 });
  const isTraced = async () => {
    const client = createTrace();
    await post(gateway.url + route, world.key, chat('Hello'), client.headers);
    await admin.telemetry.close();
    const isThere = () => receiver.spans.some(({ trace_id }) => trace_id === client.trace_id);
    if (admin.telemetry.tracing !== undefined) await until(isThere);
    return isThere();
  };
  try {
    expect(await isTraced()).toBe(false);
    write(otlp());
    await configuration.reload();
    expect(await isTraced()).toBe(true);
    write({});
    await configuration.reload();
    expect(await isTraced()).toBe(false);
    expect(admin.telemetry.tracing).toBeUndefined();
  } finally {
    await configuration.close();
    rmSync(folder, { recursive: true });
  }
});
