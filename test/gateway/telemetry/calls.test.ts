import { request } from 'undici';
import { blankPrice } from '../../../domain/ledger/pricing';
import { chat, openWorld, type TestGateway, type World } from '../../support/gateway';
import { makePrice } from '../../support/ledger';
import { createRawServer, serveTest } from '../../support/mcp';
import { connect } from '../../support/socket';
import { openReceiver, type ReceivedSpan, type Receiver } from '../../support/telemetry/otlp';
import { createTrace } from '../../support/telemetry/traces';
import { until } from '../../support/until';

// Calls that are no HTTP request of their own: frames of a socket, and calls of MCP tools.

let world: World;
let receiver: Receiver;
let gateway: TestGateway;
const heads: string[] = [];
const closing: (() => Promise<void>)[] = [];

beforeAll(async () => {
  world = await openWorld();
  receiver = await openReceiver();
  process.env.TEST_OTLP = receiver.url;
  const listening = await serveTest(
    createRawServer((req, res, body) => {
      heads.push(JSON.stringify(req.headers));
      const { id } = JSON.parse(body);
      res.writeHead(200, { 'content-type': 'application/json' });
      res.end(JSON.stringify({ jsonrpc: '2.0', id, result: { content: [] } }));
    }),
  );
  const price = { provider: 'mcp', model: 'heads/*', per_request: 0.001 };
  await makePrice(world.api.db, { ...blankPrice, tiers: null, ...price });
  const servers = [{ name: 'heads', url: listening.url }];
  const observability = { otlp: { enabled: true, endpoint_env: 'TEST_OTLP' } };
  gateway = await world.openGateway({ settings: { mcp: { servers }, observability } });
  closing.push(
    () => listening.close(),
    () => receiver.close(),
  );
});
afterAll(async () => {
  await world.close();
  for (const end of closing) await end();
});

async function spansOf(trace_id: string, count: number): Promise<ReceivedSpan[]> {
  const found = () => receiver.spans.filter((span) => span.trace_id === trace_id);
  await until(() => found().length >= count);
  return found();
}

test('each frame of a socket is a span of the trace that the socket was opened in', async () => {
  const { trace_id, span_id, headers } = createTrace();
  const socket = await connect(`${gateway.url}/v1/chat/completions/ws`, {
    authorization: `Bearer ${world.key}`,
    ...headers,
  });
  for (const words of ['one', 'two']) {
    socket.send({ type: 'chat.completion.create', ...chat(words) });
    await socket.some(({ type }) => type === 'chat.completion.done' || type === 'response.done');
    socket.frames.length = 0;
  }
  socket.ws.terminate();
  const spans = await spansOf(trace_id, 6);
  const frames = spans.filter(({ name }) => name === 'FRAME /v1/chat/completions/ws');
  expect(frames).toHaveLength(2);
  for (const { attributes, parent_span_id } of frames) {
    expect(parent_span_id).toBe(span_id);
    expect(attributes).toMatchObject({
      outcome: 'completed',
      identity_proof_method: 'gateway_key',
    });
  }
  const ids = frames.map(({ span_id }) => span_id);
  const below = spans.filter(({ parent_span_id }) => ids.includes(parent_span_id));
  expect(below.map(({ name }) => name).sort()).toEqual([
    'reserve',
    'reserve',
    'upstream',
    'upstream',
  ]);
});

test('a call of an MCP tool is a span with its reserve and its upstream, and its server sees no trace', async () => {
  const { trace_id, span_id, headers } = createTrace();
  const answer = await request(`${gateway.url}/mcp/heads`, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${world.key}`,
      'content-type': 'application/json',
      ...headers,
      accept: 'application/json, text/event-stream',
    },
    body: JSON.stringify({
      jsonrpc: '2.0',
      id: 1,
      method: 'tools/call',
      params: { name: 'look', arguments: { secret: 'teal cheese' } },
    }),
  });
  expect([answer.statusCode, await answer.body.json()]).toEqual([200, expect.anything()]);
  const spans = await spansOf(trace_id, 3);
  const call = spans.find(({ parent_span_id }) => parent_span_id === span_id);
  expect(call?.attributes).toMatchObject({
    family: 'mcp',
    provider: 'mcp',
    model: 'heads/look',
    outcome: 'completed',
    'http.response.status_code': 200,
  });
  const below = spans.filter(({ parent_span_id }) => parent_span_id === call?.span_id);
  expect(below.map(({ name }) => name).sort()).toEqual(['reserve', 'upstream']);
  expect(heads).toHaveLength(1);
  expect(heads[0]).not.toContain(trace_id);
  expect(Buffer.concat(receiver.bytes).toString('latin1')).not.toContain('teal cheese');
});
