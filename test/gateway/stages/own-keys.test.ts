import { createServer } from 'node:http';
import { request } from 'undici';
import { one } from '../../../domain/sql';
import { listen } from '../../../runtime/listen';
import { arrivals, chat, forgetArrivals, lastCharge, message, post } from '../../support/gateway';
import { credit, eventsOf } from '../../support/ledger';
import { everyRow } from '../../support/rows';
import { until } from '../../support/until';
import { openScripted } from '../../support/upstream';
import {
  ask,
  bad,
  bring,
  keysSeen,
  lines,
  log,
  makeOwner,
  manage,
  type Owner,
  PLATFORM,
  secret,
  url,
  world,
} from './owners';

/** What the newest call was settled at, by which key, and what it would have cost at list. */
async function charged({ org_id }: Owner) {
  const { actual_cost_nanos, held_nanos, usage } = await lastCharge(world, org_id);
  const { provider_key_id } = await one<{ provider_key_id: string | null }>(
    world.api.db,
    `select provider_key_id from reservations where org_id = :org_id order by created_at desc, id desc limit 1`,
    { org_id },
  );
  const { prompt_tokens = 0, completion_tokens = 0 } = usage;
  const listed = BigInt(prompt_tokens * 150 + completion_tokens * 600);
  return { cost: actual_cost_nanos, held: held_nanos, listed, provider_key_id };
}

test.each([
  ['0', 0],
  ['0.5', 0.5],
  ['1.25', 1.25],
])(
  'an organization is served by its own key at the factor %s, and no other one is',
  async (_, price_factor) => {
    const [owner, other] = [await makeOwner(), await makeOwner()];
    const key = secret(`factor-${price_factor}`);
    const id = await bring(owner, { key, price_factor });
    await forgetArrivals(world.models_url);
    for (const stream of [false, true]) {
      expect((await ask(owner, chat('Hello', { stream }))).status).toBe(200);
      expect(await keysSeen()).toEqual([key]);
      const { cost, held, listed, provider_key_id } = await charged(owner);
      expect(provider_key_id).toBe(id);
      expect(Number(cost)).toBe(Math.round(Number(listed) * price_factor));
      expect(cost <= held).toBe(true);
    }
    expect((await ask(other)).status).toBe(200);
    expect(await keysSeen()).toEqual([PLATFORM]);
    const theirs = await charged(other);
    expect([theirs.cost, theirs.provider_key_id]).toEqual([theirs.listed, null]);
  },
);

test('a key that its provider refuses is told of as what it is, costs nothing, and harms nobody else', async () => {
  const owner = await makeOwner();
  const settings = { circuit_breaker: { failures: 2, open_ms: 60_000 } };
  const at = (await world.openGateway({ settings, log })).url;
  const key = bad(401, 'only');
  const id = await bring(owner, { key });
  await forgetArrivals(world.models_url);
  for (let n = 0; n < 5; n += 1) {
    const answer = await ask(owner, chat('Hello', { stream: n % 2 === 1 }), at);
    expect([n, answer.status]).toEqual([n, 424]);
    const { error } = JSON.parse(answer.text);
    expect(error.code).toBe('provider_key_refused');
    expect(error.message).toContain(`"openai" refused your organization's own key`);
    expect(answer.text).not.toContain(key);
    expect(await charged(owner)).toMatchObject({ cost: 0n });
  }
  // Its own circuit is open by then, and the platform's key was never asked.
  const seen = await keysSeen();
  expect(new Set(seen)).toEqual(new Set([key]));
  expect(seen.length).toBeLessThan(6);
  for (let n = 0; n < 3; n += 1)
    expect((await ask(await makeOwner(), chat('Hi'), at)).status).toBe(200);

  await forgetArrivals(world.models_url);
  await manage(owner, 'post', `${id}/rotate`, { key: secret('mended') });
  expect((await ask(owner, chat('Hello'), at)).status).toBe(200);
  expect(await keysSeen()).toEqual([secret('mended')]);
});

test('what a provider says of an own key in the middle of a stream passes no policy by', async () => {
  const upstream = await openScripted();
  const filter = { blocked_terms: ['project apollo'], stages: ['output'] };
  const at = (
    await world.openGateway({
      target: { base_url: `${upstream.url}/v1` },
      settings: { policies: { chain: ['dlp-filter'] }, policy: { 'dlp-filter': filter } },
    })
  ).url;
  const owner = await makeOwner();
  await bring(owner, { key: secret('told') });
  const error = { code: 'invalid_api_key', message: 'The key of Project Apollo has ended.' };
  upstream.play([
    `data: ${JSON.stringify({ choices: [{ index: 0, delta: { content: 'Well.' } }] })}\n\n`,
    `data: ${JSON.stringify({ error })}\n\n`,
  ]);
  const { status, text } = await ask(owner, chat('Hello', { stream: true }), at);
  expect(status).toBe(200);
  expect(text).toContain(`refused your organization's own key`);
  expect(text).toContain('blocked by the policy dlp-filter');
  expect(text).not.toMatch(/apollo/i);
  await upstream.close();
});

test('too many requests by an own key say whose they were, and when to come again', async () => {
  const owner = await makeOwner();
  await bring(owner, { key: bad(429, 'busy') });
  const answer = await ask(owner);
  expect(answer.status).toBe(429);
  expect(answer.headers).toMatchObject({
    'retry-after': '1',
    'x-ratelimit-limit': '0',
    'x-ratelimit-remaining': '0',
    'x-ratelimit-reset': expect.stringMatching(/^\d{10,}$/),
  });
  expect(answer.text).toContain('own key');
  const poor = await makeOwner();
  await bring(poor, { key: bad(402, 'poor') });
  expect((await ask(poor)).status).toBe(424);
});

test('with first the key of the platform serves what an own key is refused, at its own price', async () => {
  const owner = await makeOwner();
  const key = bad(401, 'first');
  await bring(owner, { key, own_keys: 'first', price_factor: 0.5 });
  await forgetArrivals(world.models_url);
  expect((await ask(owner)).status).toBe(200);
  const seen = await keysSeen();
  expect([seen[0], seen.at(-1)]).toEqual([key, PLATFORM]);
  const { cost, held, listed, provider_key_id } = await charged(owner);
  expect([cost, provider_key_id]).toEqual([listed, null]);
  expect(cost <= held).toBe(true);
});

test('no call that begins after a revocation or a rotation uses the old value; those under way end', async () => {
  const owner = await makeOwner();
  const [old, fresh] = [secret('old'), secret('fresh')];
  const id = await bring(owner, { key: old, price_factor: 0.5 });
  await forgetArrivals(world.models_url);
  const slow = chat('Hello [[fault:slow delay=100]]', { stream: true });
  const under_way = [ask(owner, slow), ask(owner, slow)];
  await until(async () => (await arrivals(world.models_url)).length === 2);
  await manage(owner, 'post', `${id}/rotate`, { key: fresh });
  expect((await ask(owner)).status).toBe(200);
  await manage(owner, 'delete', id);
  expect((await ask(owner)).status).toBe(200);
  for (const call of under_way) {
    const answer = await call;
    expect(answer.status).toBe(200);
    expect(answer.text).toContain('[DONE]');
  }
  expect(await keysSeen()).toEqual([old, old, fresh, PLATFORM]);
  await until(async () => (await completed(owner)).length === 4);
  const by_own = (await completed(owner)).filter((payload) => payload.provider_key_id === id);
  expect(by_own).toHaveLength(3);
  const rows = await world.api
    .db('reservations')
    .where({ org_id: owner.org_id, provider_key_id: id });
  for (const { usage, actual_cost_nanos } of rows) {
    const listed = usage.prompt_tokens * 150 + usage.completion_tokens * 600;
    expect(Number(actual_cost_nanos)).toBe(Math.round(listed / 2));
  }
});

const completed = (owner: Owner) => eventsOf(world.api.db, owner.org_id, 'request.completed');

test('a call that waits for money is served by the key of the moment in which it is paid', async () => {
  const { url: held_url } = await world.openGateway({
    settings: { cost_tickets: { hold_ms: 600_000 } },
    log,
  });
  const { db } = world.api;
  const owner = await makeOwner(0n);
  const id = await bring(owner, { key: secret('before'), price_factor: 0.5 });
  await forgetArrivals(world.models_url);
  const call = ask(owner, chat('Hello'), held_url);
  await until(
    async () => (await db('ticket_waiters').where({ org_id: owner.org_id })).length === 1,
  );
  await manage(owner, 'post', `${id}/rotate`, { key: secret('after') });
  await credit(db, owner.org_id, owner.org_wallet, 1_000_000_000n);
  expect((await call).status).toBe(200);
  expect(await keysSeen()).toEqual([secret('after')]);
  const { cost, listed, provider_key_id } = await charged(owner);
  expect([cost * 2n, provider_key_id]).toEqual([listed, id]);
});

/** The control plane behind a server that counts who asks for keys, and gives them or not. */
async function openBetween(gives_keys: boolean) {
  let asked = 0;
  const server = createServer(async (req, res) => {
    const is_of_keys = req.url === '/v1/gateway/provider-keys';
    if (is_of_keys) asked += 1;
    if (is_of_keys && !gives_keys) return void res.writeHead(503).end();
    const chunks: Buffer[] = [];
    for await (const chunk of req) chunks.push(chunk as Buffer);
    const { host: _, connection: _connection, ...headers } = req.headers;
    const answer = await request(`${world.api.url}${req.url}`, {
      method: req.method as 'GET',
      headers: headers as Record<string, string>,
      body: req.method === 'GET' ? null : Buffer.concat(chunks),
    });
    res.writeHead(answer.statusCode, answer.headers as Record<string, string>);
    answer.body.pipe(res);
  });
  const close = () => {
    server.closeAllConnections();
    server.close();
  };
  return { url: `http://127.0.0.1:${await listen(server, 0)}`, asked: () => asked, close };
}

test('many calls at once ask for the key once', async () => {
  const between = await openBetween(true);
  const gateway = await world.openGateway({ api_urls: [between.url], log });
  const owner = await makeOwner();
  await bring(owner, { key: secret('many') });
  const calls = Array.from({ length: 8 }, () => ask(owner, chat('Hello'), gateway.url));
  for (const { status } of await Promise.all(calls)) expect(status).toBe(200);
  expect(between.asked()).toBe(1);
  expect(await eventsOf(world.api.db, owner.org_id, 'provider_key.used')).toHaveLength(1);
  await gateway.close();
  between.close();
});

test('a family of another wire sends the key as its provider wants it, and counts by it', async () => {
  const owner = await makeOwner();
  const key = secret('claude');
  await bring(owner, { provider: 'anthropic', key, price_factor: 0.1 });
  await forgetArrivals(world.models_url);
  expect((await post(`${url}/v1/messages`, owner.key, message('Hello'))).status).toBe(200);
  const { max_tokens: _, ...counted } = message('Hello');
  expect((await post(`${url}/v1/messages/count_tokens`, owner.key, counted)).status).toBe(200);
  // The provider of its other models is asked by the platform's.
  expect((await ask(owner)).status).toBe(200);
  expect(await keysSeen()).toEqual([key, key, PLATFORM]);
});

test('a count by a key that was revoked is an estimate a moment later, and asks nobody by it', async () => {
  const owner = await makeOwner();
  const key = bad(401, 'counts');
  const id = await bring(owner, { provider: 'anthropic', key });
  await forgetArrivals(world.models_url);
  const { max_tokens: _, ...counted } = message('Hello');
  const count = () => post(`${url}/v1/messages/count_tokens`, owner.key, counted);
  expect(JSON.parse((await count()).text)).toEqual({ input_tokens: expect.any(Number) });
  expect(new Set(await keysSeen())).toEqual(new Set([key]));
  await manage(owner, 'delete', id);
  // It may be in memory for five seconds.
  await until(async () => {
    expect((await count()).status).toBe(200);
    return !(await keysSeen()).includes(key);
  });
});

test('while no key can be had, only fails in words and first is served by the platform', async () => {
  const between = await openBetween(false);
  const gateway = await world.openGateway({ api_urls: [between.url], log });
  const [strict, lenient] = [await makeOwner(), await makeOwner()];
  await bring(strict, { key: secret('strict') });
  await bring(lenient, { key: secret('lenient'), own_keys: 'first' });
  await forgetArrivals(world.models_url);
  const answer = await ask(strict, chat('Hello'), gateway.url);
  expect([answer.status, JSON.parse(answer.text).error.code]).toEqual([503, 'unavailable']);
  expect(await charged(strict)).toMatchObject({ cost: 0n });
  expect(await keysSeen()).toEqual([]);
  expect((await ask(lenient, chat('Hello'), gateway.url)).status).toBe(200);
  expect(await keysSeen()).toEqual([PLATFORM]);
  await gateway.close();
  between.close();
});

test('no value of a key stands in a row, an event, or a line of the log', async () => {
  const rows = await everyRow(world.api.db);
  const words = 'factor-0 factor-0.5 mended old fresh before after many claude strict lenient'
    .split(' ')
    .map(secret);
  const keys = [...words, bad(401, 'only'), bad(429, 'busy'), bad(402, 'poor'), bad(401, 'first')];
  expect(lines.join('')).toContain('a provider refuses an own key');
  for (const key of keys) {
    expect([key, rows.includes(key)]).toEqual([key, false]);
    expect([key, lines.some((line) => line.includes(key))]).toEqual([key, false]);
  }
});
