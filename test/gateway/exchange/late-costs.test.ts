import { createServer, type Server } from 'node:http';
import { json } from 'node:stream/consumers';
import { request } from 'undici';
import type { BatchItem } from '../../../domain/ledger/calls';
import { COST_WAIT_MS } from '../../../gateway/gateway';
import { createDeferred } from '../../../runtime/deferred';
import { listen } from '../../../runtime/listen';
import { API_VERSION } from '../../../runtime/version';
import { chat, lastCharge, openWorld, post, type World } from '../../support/gateway';

// A control plane that takes settlements and answers them when the test says so.

let world: World;
let slow: Server;
let url: string;
let answer = createDeferred<void>();
const ask = { 'x-svc-include-cost': 'true' };
const streamed = { stream: true, stream_options: { include_usage: true } };

beforeAll(async () => {
  world = await openWorld();
  slow = createServer(async (req, res) => {
    const body = req.method === 'POST' ? await json(req) : undefined;
    const items = (body as { items?: BatchItem[] } | undefined)?.items ?? [];
    const passed = await request(`${world.api.url}${req.url}`, {
      method: req.method as 'POST',
      headers: {
        authorization: req.headers.authorization ?? '',
        'x-svc-gateway-version': API_VERSION,
        ...(body ? { 'content-type': 'application/json' } : {}),
      },
      body: body ? JSON.stringify(body) : null,
    });
    const text = await passed.body.text();
    if (items.some(({ op }) => op === 'settle')) await answer.promise;
    res.writeHead(passed.statusCode, passed.headers as Record<string, string>);
    res.end(text);
  });
  const api_url = `http://127.0.0.1:${await listen(slow, 0)}`;
  const gateway = await world.openGateway({ api_urls: [api_url] });
  gateway.gateway.cost_wait_ms = COST_WAIT_MS;
  url = `${gateway.url}/v1/chat/completions`;
});

beforeEach(() => {
  answer = createDeferred<void>();
});

afterAll(async () => {
  answer.resolve();
  await world.close();
  slow.closeAllConnections();
  await new Promise((resolve) => slow.close(resolve));
});

test('an answer whose settlement is not heard of says that its cost is pending, and is charged once', async () => {
  const { status, text, headers } = await post(url, world.key, chat('Hello'), ask);
  expect([status, headers['x-svc-cost-status']]).toEqual([200, 'pending']);
  expect(headers['x-svc-cost']).toBeUndefined();
  expect(JSON.parse(text).usage).not.toHaveProperty('cost');
  answer.resolve();
  expect(await lastCharge(world, world.org.org_id)).toMatchObject({ status: 'settled' });
});

test('a stream of that kind comes whole, unchanged, and says so behind its end', async () => {
  const plain = await post(`${world.url}/v1/chat/completions`, world.key, chat('Hello', streamed));
  const told = await request(url, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      authorization: `Bearer ${world.key}`,
      ...ask,
    },
    body: JSON.stringify(chat('Hello', streamed)),
  });
  const text = await told.body.text();
  const same = (one: string) => one.replaceAll(/"id":"[^"]*"|"created":\d+/g, '');
  expect(same(text)).toBe(same(plain.text));
  expect(told.trailers).toEqual({ 'x-svc-cost-status': 'pending' });
  answer.resolve();
});

test('a call that does not ask waits for no settlement', async () => {
  // It would hang here, as nobody lets the settlement be answered.
  const { status, headers } = await post(url, world.key, chat('Hello'));
  expect([status, headers['x-svc-cost-status']]).toEqual([200, undefined]);
  answer.resolve();
});
