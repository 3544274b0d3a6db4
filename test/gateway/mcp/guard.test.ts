import type { ServerResponse } from 'node:http';
import { blankPrice } from '../../../domain/ledger/pricing';
import { many } from '../../../domain/sql';
import { createMcpServer } from '../../../sandbox/tools/mcp-server';
import { gatewayKey, lastCharge, openWorld, type World } from '../../support/gateway';
import { credit, makeOrg, makePrice } from '../../support/ledger';
import {
  connectNew,
  connectOld,
  createRawServer,
  postMcp,
  serveTest,
  type TestServer,
} from '../../support/mcp';
import { until } from '../../support/until';

let world: World;
let server: TestServer;
let answer: (res: ServerResponse) => void;
let blocking: string;
let redacting: string;

beforeAll(async () => {
  world = await openWorld();
  server = await serveTest(createRawServer((_, res) => answer(res)));
  const price = { ...blankPrice, tiers: null, provider: 'mcp', model: 'tools/*', per_request: 0.1 };
  await makePrice(world.api.db, price);
  blocking = await open({ action: 'block' });
  redacting = await open({ action: 'redact' });
});
afterAll(async () => {
  await world.close();
  await server.close();
});

async function open(more: object, url = server.url): Promise<string> {
  const policy = {
    'dlp-filter': {
      blocked_terms: ['falcon'],
      detect_patterns: ['us_ssn'],
      stages: ['output'],
      ...more,
    },
  };
  const settings = {
    mcp: { servers: [{ name: 'tools', url }] },
    policies: { chain: ['dlp-filter'] },
    policy,
  };
  return `${(await world.openGateway({ settings })).url}/mcp`;
}

async function payer() {
  const org = await makeOrg(world.api.db);
  await credit(world.api.db, org.org_id, org.org_wallet, 1_000_000_000n);
  return { org_id: org.org_id, key: await gatewayKey(world.api, org.org_id) };
}

const call = {
  jsonrpc: '2.0',
  id: 1,
  method: 'tools/call',
  params: { name: 'echo', arguments: { text: 'falcon' } },
};
const result = (text: string, id: unknown = 1) => ({
  jsonrpc: '2.0',
  id,
  result: { content: [{ type: 'text', text }], structuredContent: { id: text } },
});

function json(value: unknown, status = 200) {
  answer = (res) => {
    const text = typeof value === 'string' ? value : JSON.stringify(value);
    const length = Buffer.byteLength(text);
    res.writeHead(status, { 'content-type': 'application/json', 'content-length': length });
    res.end(text);
  };
}

function stream(...events: string[]) {
  answer = (res) => {
    res.writeHead(200, { 'content-type': 'text/event-stream' });
    // Cut at places where nothing ends, as networks do.
    const text = events.join('');
    res.write(text.slice(0, 9));
    setImmediate(() => res.end(text.slice(9)));
  };
}

const refused = {
  jsonrpc: '2.0',
  id: 1,
  error: {
    data: { code: 'output_blocked', status: 409, type: 'policy_violation', policy: 'dlp-filter' },
  },
};

test.each([
  ['a result', result('the Falcon')],
  ['a value of any name', result('123-45-6789')],
  ['an error', { jsonrpc: '2.0', id: 1, error: { code: -32_000, message: 'no falcon' } }],
])('%s that says what is forbidden is blocked whole', async (_, said) => {
  const { key } = await payer();
  json(said);
  const told = await postMcp(blocking, { key, body: call });
  expect(told.status).toBe(409);
  expect(told.body).toMatchObject(refused);
  expect(told.text).not.toMatch(/falcon|6789/i);
});

test('a tool whose result is blocked has run, and is paid for; an event tells of it', async () => {
  const { org_id, key } = await payer();
  json(result('falcon'));
  expect((await postMcp(blocking, { key, body: call })).status).toBe(409);
  expect(await lastCharge(world, org_id)).toMatchObject({
    status: 'settled',
    outcome: 'completed',
    actual_cost_nanos: 100_000_000n,
  });
  let told: { payload: object }[] = [];
  await until(async () => {
    told = await many(
      world.api.db,
      `select payload from events where type = 'request.blocked' and org_id = :org_id`,
      { org_id },
    );
    return told.length > 0;
  });
  expect(told).toMatchObject([{ payload: { stage: 'output', model: 'tools/echo' } }]);
});

test('what is listed or read for free is looked at too', async () => {
  const { key } = await payer();
  json(result('falcon'));
  const body = { jsonrpc: '2.0', id: 1, method: 'resources/read', params: { uri: 'file:///a' } };
  expect((await postMcp(blocking, { key, body })).status).toBe(409);
});

test('where words are redacted a result keeps all else, and its length is right', async () => {
  const { key } = await payer();
  const text = `{ "jsonrpc":"2.0","id":1,"result":{"n":1.50,"content":[{"type":"text","text":"a falcon"}]}}`;
  json(text);
  const told = await postMcp(redacting, { key, body: call });
  expect(told.status).toBe(200);
  const said = told.body.result.content[0].text;
  expect(said).toMatch(/^a \S+$/);
  expect(told.text).toBe(text.replace('a falcon', said));
});

test.each([
  ['blocking', () => blocking],
  ['redacting', () => redacting],
])('an answer without anything forbidden passes %s byte by byte', async (_, at) => {
  const { key } = await payer();
  const text = JSON.stringify(result('an eagle'), null, 2);
  json(text, 200);
  expect((await postMcp(at(), { key, body: call })).text).toBe(text);
  const events = `event: message\nid: 7\ndata: ${JSON.stringify(result('an eagle'))}\n\n`;
  stream(events);
  expect((await postMcp(at(), { key, body: call })).text).toBe(events);
});

test('in a stream the answer is refused in its place, and notices that say what is forbidden are left out', async () => {
  const { org_id, key } = await payer();
  const notice = (message: string) =>
    `data: ${JSON.stringify({ jsonrpc: '2.0', method: 'notifications/progress', params: { message } })}\n\n`;
  stream(
    ': a falcon\n\n',
    notice('half'),
    notice('falcon'),
    `event: message\nid: 8\ndata: ${JSON.stringify(result('falcon'))}\n\n`,
  );
  const told = await postMcp(blocking, { key, body: call });
  expect(told.status).toBe(200);
  expect(told.text).not.toMatch(/falcon/);
  const [first, second, ...rest] = told.text.trim().split('\n\n');
  expect(first).toContain('half');
  expect(second).toMatch(/^event: message\nid: 8\ndata: /);
  expect(rest).toEqual([]);
  expect(JSON.parse(second?.split('data: ')[1] as string)).toMatchObject(refused);
  expect(await lastCharge(world, org_id)).toMatchObject({ actual_cost_nanos: 100_000_000n });
});

test('a question of a server that says what is forbidden ends its stream with a refusal, as nobody answers it', async () => {
  const { key } = await payer();
  answer = (res) => {
    res.writeHead(200, { 'content-type': 'text/event-stream' });
    const params = { message: 'Name the falcon', requestedSchema: { type: 'object' } };
    const question = { jsonrpc: '2.0', id: 7, method: 'elicitation/create', params };
    // The server waits for the answer.
    res.write(`event: message\ndata: ${JSON.stringify(question)}\n\n`);
  };
  const told = await postMcp(blocking, { key, body: call });
  expect(told.text).not.toContain('falcon');
  expect(JSON.parse(told.text.split('data: ')[1] as string)).toMatchObject(refused);
});

test('whom a server names in a message is looked at', async () => {
  const { key } = await payer();
  const params = { uri: 'file:///falcon/plan' };
  const notice = { jsonrpc: '2.0', method: 'notifications/resources/updated', params };
  const events = [notice, result('fine')].map((one) => `data: ${JSON.stringify(one)}\n\n`);
  stream(...events);
  expect((await postMcp(blocking, { key, body: call })).text).toBe(events[1]);
});

test('in a stream words are redacted, over several lines of data too', async () => {
  const { key } = await payer();
  const lines = JSON.stringify(result('a falcon'), null, 1).replaceAll('\n', '\r\ndata: ');
  stream(`id: 1\r\ndata: ${lines}\r\n\r\n`);
  const told = await postMcp(redacting, { key, body: call });
  const data = [...told.text.matchAll(/^data: (.*)$/gm)].map(([, line]) => line).join('\n');
  expect(JSON.parse(data).result.content[0].text).toMatch(/^a \S+$/);
  expect(told.text).not.toContain('falcon');
});

test('fields of events that say what is forbidden are left out', async () => {
  const { key } = await payer();
  const data = `data: ${JSON.stringify(result('an eagle'))}`;
  stream(`event: a falcon\nid: a falcon\nretry: a falcon\n${data}\n\n`);
  const told = await postMcp(blocking, { key, body: call });
  expect(told.text).toBe(`${data}\n\n`);
});

test.each([
  ['too long', () => JSON.stringify(result('x'.repeat(17 * 1_048_576)))],
  [
    'of too many values',
    () => JSON.stringify({ ...result('Hi'), more: Array(160_000).fill('ab') }),
  ],
])('what is %s to be looked at is refused, and paid for', async (_, text) => {
  const { org_id, key } = await payer();
  json(text());
  const told = await postMcp(blocking, { key, body: call });
  expect([told.status, told.body.error.data.code]).toEqual([502, 'upstream_failed']);
  expect(await lastCharge(world, org_id)).toMatchObject({ actual_cost_nanos: 100_000_000n });
});

test('an answer of nothing is passed on, and one that is no JSON is looked at as a text', async () => {
  const { key } = await payer();
  answer = (res) => res.writeHead(202).end();
  const body = { jsonrpc: '2.0', method: 'notifications/initialized' };
  expect(await postMcp(blocking, { key, body })).toMatchObject({ status: 202, text: '' });
  answer = (res) => res.writeHead(404, { 'content-type': 'text/plain' }).end('"falcon');
  const refusal = await postMcp(blocking, { key, body }).catch(() => undefined);
  expect(refusal?.status).toBe(409);
});

test.each([
  [
    'the older protocol',
    (url: string, headers: Record<string, string>) => connectOld(url, headers),
  ],
  [
    'the newest protocol',
    (url: string, headers: Record<string, string>) => connectNew(url, headers, '2026-07-28'),
  ],
])(
  'an official client of %s reads what is left of a result, and the refusal of one',
  async (_, connect) => {
    const real = await serveTest(createMcpServer());
    const { key } = await payer();
    const headers = { authorization: `Bearer ${key}` };
    const asked = { name: 'echo', arguments: { text: 'a falcon' } };
    const mild = await connect(await open({ action: 'redact' }, real.url), headers);
    const { content } = await mild.client.callTool(asked);
    expect(JSON.stringify(content)).toMatch(/"text":"a [^"f]+"/);
    const strict = await connect(await open({ action: 'block' }, real.url), headers);
    await expect(strict.client.callTool(asked)).rejects.toThrow(/blocked by the policy/);
    await mild.client.close();
    await strict.client.close();
    await real.close();
  },
);
