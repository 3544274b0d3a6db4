import { createServer, type Server } from 'node:http';
import { json } from 'node:stream/consumers';
import { request } from 'undici';
import type { BatchItem, BatchLine } from '../../../domain/ledger/calls';
import { one } from '../../../domain/sql';
import { listen } from '../../../runtime/listen';
import { API_VERSION } from '../../../runtime/version';
import { chat, lastCharge, message, openWorld, post, type World } from '../../support/gateway';
import { gateway_audience, startIdentityProvider } from '../../support/identity/provider';
import { issueKey } from '../../support/keys';
import { openScripted } from '../../support/upstream';

// A control plane of the version before refuses members that it does not know; nothing is lost of
// the calls of a gateway that runs before it.

let world: World;
let older: Server;
let older_url: string;
/** What the older API was sent in the words that it knows. */
const taken: string[] = [];

beforeAll(async () => {
  world = await openWorld();
  older = createServer(async (req, res) => {
    const body = (req.method === 'POST' ? await json(req) : undefined) as Body | undefined;
    if (req.url === '/v1/gateway/people/verify') {
      res.writeHead(404, { 'content-type': 'application/json' });
      res.end(JSON.stringify({ error: { code: 'not_found', message: 'There is no such route.' } }));
      return;
    }
    const passOn = async (rest: object | undefined) => {
      const answer = await request(`${world.api.url}${req.url}`, {
        method: req.method as 'POST',
        headers: {
          authorization: req.headers.authorization ?? '',
          'x-svc-gateway-version': API_VERSION,
          ...(rest ? { 'content-type': 'application/json' } : {}),
        },
        body: rest ? JSON.stringify(rest) : null,
      });
      return { status: answer.statusCode, text: await answer.body.text() };
    };
    if (body?.items && req.url?.endsWith('/batch')) {
      const known = body.items.filter((item) => newIn(item.body) === undefined);
      taken.push(...known.map(({ op }) => op));
      const unknown = body.items.filter((item) => newIn(item.body) !== undefined);
      const lines = unknown.map(
        ({ id, body: item }): BatchLine => ({ id, status: 422, body: refusalOf(newIn(item)) }),
      );
      const answered = known.length === 0 ? '' : (await passOn({ items: known })).text;
      res.writeHead(200, { 'content-type': 'application/x-ndjson' });
      res.end(`${lines.map((line) => `${JSON.stringify(line)}\n`).join('')}${answered}`);
      return;
    }
    if (body !== undefined && newIn(body) !== undefined) {
      res.writeHead(422, { 'content-type': 'application/json' });
      res.end(JSON.stringify(refusalOf(newIn(body))));
      return;
    }
    if (req.url?.endsWith('/redeem-ticket')) taken.push('redeem');
    const { status, text } = await passOn(body);
    res.writeHead(status, { 'content-type': 'application/json' });
    res.end(text);
  });
  older_url = `http://127.0.0.1:${await listen(older, 0)}`;
});

afterAll(async () => {
  await world.close();
  older.closeAllConnections();
  await new Promise((resolve) => older.close(resolve));
});

interface Body {
  items?: BatchItem[];
}

const newer = [
  'trace_label',
  'identity_proof_method',
  'tags',
  'with_cost',
  'provider_cost_usd',
  'choices',
  'cache_life',
];

/** The first member that the older API does not know. */
const newIn = (body: object) => Object.keys(body).find((name) => newer.includes(name));

const refusalOf = (param: string | undefined) => ({
  type: 'error',
  error: {
    code: 'unknown_field',
    message: `${param} is not a field of this request.`,
    type: 'invalid_request_error',
    param,
  },
});

test('calls reserve and settle to their real cost, and a ticket is redeemed', async () => {
  const gateway = await world.openGateway({ api_urls: [older_url] });
  const url = `${gateway.url}/v1/chat/completions`;
  const { status } = await post(url, world.key, chat('Hello'));
  expect(status).toBe(200);
  const charge = await lastCharge(world, world.org.org_id);
  expect(charge).toMatchObject({ status: 'settled', usage_source: 'upstream' });
  const dear = chat('Hello', { max_tokens: 300_000_000 });
  const short = await post(url, world.key, dear);
  expect(short.status).toBe(402);
  const { id } = JSON.parse(short.text).cost_ticket;
  const again = await post(url, world.key, dear, { 'x-svc-cost-ticket': id });
  expect(again.status).toBe(402);
  await gateway.close();
  expect(taken).toEqual(['reserve', 'settle', 'reserve', 'redeem']);
});

test('a settlement with the figure of its provider is made without it, at its real cost', async () => {
  const usage = { prompt_tokens: 1_000, completion_tokens: 10, total_tokens: 1_010, cost: 0.5 };
  const message = { role: 'assistant', content: 'Hi' };
  const upstream = await openScripted();
  const answer = { choices: [{ index: 0, message, finish_reason: 'stop' }], usage };
  upstream.play([JSON.stringify(answer)], 'application/json');
  const target = { id: 'or', kind: 'openrouter', provider: 'openai', models: ['gpt-4o-mini'] };
  const auth = { key_env: 'TEST_MODELS_KEY' };
  const targets = [{ ...target, base_url: `${upstream.url}/v1`, auth }];
  const settings = { providers: { targets } };
  const gateway = await world.openGateway({ api_urls: [older_url], settings });
  taken.length = 0;
  const { status } = await post(`${gateway.url}/v1/chat/completions`, world.key, chat('Hello'));
  expect(status).toBe(200);
  const charge = await lastCharge(world, world.org.org_id);
  expect(charge).toMatchObject({ status: 'settled', usage_source: 'upstream' });
  expect(charge.actual_cost_nanos).toBe(156_000n);
  await gateway.close();
  await upstream.close();
  expect(taken).toEqual(['reserve', 'settle']);
});

test('a call with tags that asks for its cost goes on without them, and is told the cost alone', async () => {
  const gateway = await world.openGateway({ api_urls: [older_url] });
  taken.length = 0;
  const { status, text } = await post(
    `${gateway.url}/v1/chat/completions`,
    world.key,
    chat('Hello'),
    { 'x-svc-tags': 'nightly', 'x-svc-include-cost': 'true' },
  );
  expect(status).toBe(200);
  const { actual_cost_nanos } = await lastCharge(world, world.org.org_id);
  const cost = Number(actual_cost_nanos) / 1e9;
  const { usage } = JSON.parse(text);
  expect(usage).toMatchObject({ cost, cost_details: { cost: String(cost), currency: 'USD' } });
  expect(usage.cost_details).not.toHaveProperty('lines');
  await gateway.close();
  expect(taken).toEqual(['reserve', 'settle']);
});

test('a call that marks a cache is held for without the price of writes', async () => {
  const gateway = await world.openGateway({ api_urls: [older_url] });
  taken.length = 0;
  const cache_control = { type: 'ephemeral', ttl: '1h' };
  const content = [{ type: 'text', text: 'Hello', cache_control }];
  const asked = { ...message('Hello'), messages: [{ role: 'user', content }] };
  const { status } = await post(`${gateway.url}/v1/messages`, world.key, asked);
  expect(status).toBe(200);
  const charge = await lastCharge(world, world.org.org_id);
  expect(charge).toMatchObject({ status: 'settled', usage_source: 'upstream' });
  await gateway.close();
  expect(taken).toEqual(['reserve', 'settle']);
});

test('choices without a cap are held for by the cap that stood for all of them', async () => {
  const { org_id } = world.org;
  const gateway = await world.openGateway({ api_urls: [older_url] });
  taken.length = 0;
  const asked = chat('Hello', { n: 3, max_tokens: undefined });
  const { status } = await post(`${gateway.url}/v1/chat/completions`, world.key, asked);
  expect(status).toBe(200);
  const charge = await lastCharge(world, org_id);
  expect(charge).toMatchObject({ status: 'settled', usage_source: 'upstream' });
  await gateway.close();
  expect(taken).toEqual(['reserve', 'settle']);
  const held = await one<{ max_completion_tokens: bigint }>(
    world.api.db,
    `select max_completion_tokens from reservations
     where org_id = :org_id and status <> 'canceled' order by created_at desc, id desc limit 1`,
    { org_id },
  );
  expect(held.max_completion_tokens).toBe(12_288n);
});

test('a person whose token has their own id pays, and one that names the key of somebody else does not', async () => {
  const { org_id, user_id } = world.org;
  const idp = await startIdentityProvider();
  const { id: key_id } = await issueKey(world.api.db, org_id, { token_type: 'gateway' });
  const identity = {
    mode: 'signed_assertion',
    org_id,
    issuer: idp.issuer,
    audience: gateway_audience,
    jwks_url: idp.jwks_url,
  };
  const gateway = await world.openGateway({ api_urls: [older_url], settings: { identity } });
  const ask = async (claims: object) => {
    const now = Math.floor(Date.now() / 1_000);
    const plain = { iss: idp.issuer, aud: gateway_audience, iat: now, exp: now + 300 };
    const token = await idp.sign({ ...plain, sub: user_id, ...claims }, { typ: 'at+jwt' });
    return (await post(`${gateway.url}/v1/chat/completions`, token, chat('Hello'))).status;
  };
  taken.length = 0;
  expect(await ask({})).toBe(200);
  await lastCharge(world, org_id);
  expect(await ask({ kt_key_id: key_id })).toBe(403);
  await gateway.close();
  await idp.close();
  expect(taken).toEqual(['reserve', 'settle']);
});
