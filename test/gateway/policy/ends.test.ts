import { once } from 'node:events';
import { createServer, type Server, type ServerResponse } from 'node:http';
import { Agent, request } from 'undici';
import { listen } from '../../../runtime/listen';
import {
  chat,
  lastCharge,
  openHolds,
  openWorld,
  type TestGateway,
  type World,
} from '../../support/gateway';
import { connect } from '../../support/socket';
import { until } from '../../support/until';

let world: World;
let upstream: Server;
let gateway: TestGateway;
/** The answer that the upstream has begun, and does not end by itself. */
let begun: ServerResponse[] = [];

const settings = {
  policies: { chain: ['dlp-filter'] },
  policy: { 'dlp-filter': { blocked_terms: ['project apollo'], stages: ['output'] } },
};
const usage = { prompt_tokens: 7, completion_tokens: 9, total_tokens: 16 };
const end = [{ choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] }, { choices: [], usage }]
  .map((chunk) => `data: ${JSON.stringify(chunk)}\n\n`)
  .join('');

beforeAll(async () => {
  world = await openWorld();
  upstream = createServer((req, res) => {
    req.resume().once('end', () => {
      res.writeHead(200, { 'content-type': 'text/event-stream' });
      const delta = { role: 'assistant', content: 'Project Apollo' };
      res.write(`data: ${JSON.stringify({ choices: [{ index: 0, delta }] })}\n\n`);
      begun.push(res);
    });
  });
  const base_url = `http://127.0.0.1:${await listen(upstream, 0)}/v1`;
  gateway = await world.openGateway({ settings, target: { base_url } });
});

beforeEach(() => {
  begun = [];
});

afterAll(async () => {
  await world.close();
  upstream.closeAllConnections();
  upstream.close();
});

const last = () => lastCharge(world, world.org.org_id);
const holds = () => openHolds(world.api, world.org.org_id);

function ask(url: string, dispatcher?: Agent) {
  return request(`${url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${world.key}` },
    body: JSON.stringify(chat('x', { stream: true })),
    ...(dispatcher && { dispatcher }),
  });
}

const charged = {
  status: 'settled',
  outcome: 'completed',
  usage_source: 'upstream',
  usage: { prompt_tokens: 7, completion_tokens: 9 },
};

test('a stream that is blocked before anything was sent is answered at once, and settled once its upstream has ended', async () => {
  // One connection, which the refusal leaves whole.
  const agent = new Agent({ connections: 1, pipelining: 1 });
  const sockets = new Set<unknown>();
  agent.on('connect', (_, targets) => sockets.add(targets.at(-1)));
  for (let turn = 1; turn <= 2; turn += 1) {
    const answer = await ask(gateway.url, agent);
    expect(answer.statusCode).toBe(409);
    expect(answer.headers).toMatchObject({
      'x-should-retry': 'false',
      'x-request-id': expect.any(String),
      'content-type': 'application/json; charset=utf-8',
    });
    expect(await answer.body.json()).toMatchObject({
      type: 'error',
      error: { code: 'output_blocked', type: 'policy_violation', policy: 'dlp-filter' },
      request_id: answer.headers['x-request-id'],
    });
    expect(await holds()).toBe(1);
    expect(gateway.gateway.calls.size).toBe(1);
    begun.at(-1)?.end(end);
    expect(await last()).toMatchObject(charged);
    await until(() => gateway.gateway.calls.size === 0);
  }
  expect(sockets.size).toBe(1);
  await agent.close();
});

test('a stop waits for the settlement of what was answered already', async () => {
  const base_url = `http://127.0.0.1:${(upstream.address() as { port: number }).port}/v1`;
  const stopping = await world.openGateway({ settings, target: { base_url } });
  const answer = await ask(stopping.url);
  expect(answer.statusCode).toBe(409);
  await answer.body.dump();
  let has_stopped = false;
  const stop = stopping.close().then(() => {
    has_stopped = true;
  });
  await until(() => stopping.gateway.is_draining);
  expect(await holds()).toBe(1);
  expect(has_stopped).toBe(false);
  begun.at(-1)?.end(end);
  await stop;
  expect(await holds()).toBe(0);
  expect(await last()).toMatchObject(charged);
});

test('over a socket the refusal is one frame, told at once; the lane goes on when its upstream has ended', async () => {
  const { url } = gateway;
  const client = await connect(`${url}/v1/chat/completions/ws`, {
    authorization: `Bearer ${world.key}`,
  });
  client.send({ type: 'chat.completion.create', ...chat('x') });
  await client.some(({ type }) => type === 'error');
  expect(client.frames).toMatchObject([{ type: 'error', error: { code: 'output_blocked' } }]);
  expect(await holds()).toBe(1);
  client.send({ type: 'chat.completion.create', ...chat('x') });
  begun.at(-1)?.end(end);
  await until(() => begun.length === 2);
  await client.some((frame) => frame !== client.frames[0]);
  expect(client.frames.map(({ type }) => type)).toEqual(['error', 'error']);
  begun.at(-1)?.end(end);
  expect(await last()).toMatchObject(charged);
  client.ws.terminate();
  await once(client.ws, 'close');
});

test('a client that leaves behind its refusal changes nothing of what is charged', async () => {
  const agent = new Agent();
  const answer = await ask(gateway.url, agent);
  await answer.body.dump();
  await agent.destroy();
  begun.at(-1)?.end(end);
  expect(await last()).toMatchObject(charged);
});

test('a refusal gives its slot back, although its upstream is still read', async () => {
  const base_url = `http://127.0.0.1:${(upstream.address() as { port: number }).port}/v1`;
  const rate_limits = { global: { max_parallel_requests: 1 } };
  const limited = await world.openGateway({
    settings: { ...settings, rate_limits },
    target: { base_url },
  });
  for (let turn = 1; turn <= 2; turn += 1) {
    const answer = await ask(limited.url);
    expect(answer.statusCode).toBe(409);
    await answer.body.dump();
    expect(limited.gateway.calls.size).toBe(turn);
  }
  for (const res of begun) res.end(end);
  await until(() => limited.gateway.calls.size === 0);
  await limited.close();
});
