import Anthropic from '@anthropic-ai/sdk';
import OpenAI from 'openai';
import { request } from 'undici';
import { many, one } from '../../../domain/sql';
import { type CallApi, makeKey, serve } from '../../support/api';
import {
  chat,
  gatewayKey,
  openWorld,
  post,
  type TestGateway,
  type World,
} from '../../support/gateway';
import { credit, makeOrg, type TestOrg } from '../../support/ledger';
import { until } from '../../support/until';
import { openWire } from '../../support/wire';
import { startWorker, type TestWorker } from '../../support/worker';

let world: World;
let gateway: TestGateway;
let worker: TestWorker;
let approvers: Awaited<ReturnType<typeof serve>>;
let call: CallApi;

const CHAT = '/v1/chat/completions';

beforeAll(async () => {
  world = await openWorld();
  gateway = await world.openGateway({ settings: { cost_tickets: { hold_ms: 20_000 } } });
  worker = await startWorker(world.api.db);
  approvers = await serve({ db: world.api.db, temporal: worker.temporal });
  ({ call } = approvers);
});

afterAll(async () => {
  await approvers.close();
  await worker.close();
  await world.close();
});

interface Poor extends TestOrg {
  key: string;
  key_id: string;
  billing_key: string;
}

/** An organization without money, with a gateway key and somebody who may bill. */
async function makePoor(): Promise<Poor> {
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

const ask = (poor: Poor, words: string, headers: Record<string, string> = {}) =>
  post(gateway.url + CHAT, poor.key, chat(words), headers);

async function waiting({ org_id }: Poor): Promise<number> {
  const rows = await many(
    world.api.db,
    `select 1 from ticket_waiters where org_id = :org_id and answer is null and until > clock_timestamp()`,
    { org_id },
  );
  return rows.length;
}

const untilWaiting = (poor: Poor, calls = 1) =>
  until(async () => (await waiting(poor)) === calls, 10_000);

async function ticketsOf({ billing_key }: Poor) {
  return (await call('get', '/v1/cost-tickets', { key: billing_key })).body.tickets;
}

async function decide(poor: Poor, verb: 'approve' | 'deny', body: object = {}) {
  const [ticket] = await ticketsOf(poor);
  const path = `/v1/cost-tickets/${ticket.id}/${verb}`;
  return call('post', path, { key: poor.billing_key, body });
}

const topUp = (poor: Poor, nanos = 1_000_000_000n) =>
  credit(world.api.db, poor.org_id, poor.org_wallet, nanos);

test('a call that no wallet covers waits, and is answered by the model once somebody tops up', async () => {
  const poor = await makePoor();
  const answer = ask(poor, 'held until paid');
  await untilWaiting(poor);
  await topUp(poor);
  expect(await answer).toMatchObject({ status: 200 });
  expect(JSON.parse((await answer).text).choices[0].message.content).toBeTruthy();
  expect(await ticketsOf(poor)).toMatchObject([{ status: 'redeemed' }]);
});

test('a held stream starts when its ticket is approved, and nothing is missing from it', async () => {
  const poor = await makePoor();
  const answer = post(gateway.url + CHAT, poor.key, chat('stream later', { stream: true }));
  await untilWaiting(poor);
  expect((await decide(poor, 'approve')).status).toBe(200);
  const { status, text } = await answer;
  expect(status).toBe(200);
  expect(text).toMatch(/data: \[DONE\]\n\n$/);
  const { balance } = await one<{ balance: bigint }>(
    world.api.db,
    'select balance_nanos + reserved_nanos as balance from wallets where id = :id',
    { id: poor.org_wallet },
  );
  expect(balance).toBeGreaterThan(0n);
});

test('a denied call is told at once: 403 with the reason, and no SDK tries again', async () => {
  const poor = await makePoor();
  const client = new OpenAI({ baseURL: `${gateway.url}/v1`, apiKey: poor.key });
  const answer = client.chat.completions.create(chat('not today') as never).catch((e) => e);
  await untilWaiting(poor);
  await decide(poor, 'deny', { reason: 'out of budget' });
  expect(await answer).toMatchObject({ status: 403, code: 'ticket_denied' });
  expect((await answer).message).toContain('out of budget');
});

test('both official SDKs carry ticket, shortfall and expiry of a 402 in their exceptions, and ask once', async () => {
  const poor = await makePoor();
  const headers = { 'x-svc-hold-ms': '0' };
  const openai = new OpenAI({
    baseURL: `${gateway.url}/v1`,
    apiKey: poor.key,
    defaultHeaders: headers,
  });
  const refused = await openai.chat.completions.create(chat('a') as never).catch((e) => e);
  const anthropic = new Anthropic({
    baseURL: gateway.url,
    authToken: poor.key,
    apiKey: null,
    defaultHeaders: headers,
  });
  const other = await anthropic.post(CHAT, { body: chat('b') }).catch((e: unknown) => e);
  const expected = {
    id: expect.stringMatching(/^ticket_/),
    shortfall: expect.any(Number),
    expires_at: expect.stringMatching(/Z$/),
  };
  expect([refused.status, refused.error.cost_ticket]).toEqual([
    402,
    expect.objectContaining(expected),
  ]);
  expect(other).toMatchObject({ status: 402, error: { error: { cost_ticket: expected } } });
  expect(await ticketsOf(poor)).toHaveLength(2);
});

test('the hold ends after the time that the request names: 402, and the ticket stays open', async () => {
  const poor = await makePoor();
  const started_at = performance.now();
  const answer = await ask(poor, 'short hold', { 'x-svc-hold-ms': '400' });
  const took_ms = performance.now() - started_at;
  expect(answer.status).toBe(402);
  expect(took_ms).toBeGreaterThanOrEqual(390);
  expect(took_ms).toBeLessThan(3_000);
  expect(answer.headers['x-should-retry']).toBe('false');
  expect(await ticketsOf(poor)).toMatchObject([{ status: 'open' }]);
  await topUp(poor);
  const { reserved } = await one<{ reserved: bigint }>(
    world.api.db,
    'select reserved_nanos as reserved from wallets where id = :id',
    { id: poor.org_wallet },
  );
  expect(reserved).toBe(0n);
});

test('the same body with its ticket redeems later; another body, a used or a foreign ticket is refused without a hold', async () => {
  const poor = await makePoor();
  const refused = await ask(poor, 'come back', { 'x-svc-hold-ms': '0' });
  const { id } = JSON.parse(refused.text).cost_ticket;
  const bring = { 'x-svc-cost-ticket': id };
  await topUp(poor);
  expect((await ask(poor, 'something else', bring)).status).toBe(409);
  const stranger = await makePoor();
  expect((await ask(stranger, 'come back', bring)).status).toBe(404);
  expect((await ask(poor, 'come back', bring)).status).toBe(200);
  const again = await ask(poor, 'come back', bring);
  expect([again.status, JSON.parse(again.text).error.code]).toEqual([409, 'ticket_redeemed']);
  expect((await ask(poor, 'come back', { 'x-svc-cost-ticket': 'x'.repeat(201) })).status).toBe(422);
});

test.each([['-1'], ['1.5'], ['soon'], ['600001'], ['']])(
  'x-svc-hold-ms %p is refused by name, before any money moves',
  async (value) => {
    const poor = await makePoor();
    const answer = await ask(poor, 'how long', { 'x-svc-hold-ms': value });
    expect(answer.status).toBe(422);
    expect(JSON.parse(answer.text).error.param).toBe('x-svc-hold-ms');
    expect(await ticketsOf(poor)).toEqual([]);
  },
);

test('a client that goes while it is held leaves the queue at once, and its ticket open', async () => {
  const poor = await makePoor();
  const leave = new AbortController();
  const gone = request(gateway.url + CHAT, {
    method: 'POST',
    headers: { authorization: `Bearer ${poor.key}`, 'content-type': 'application/json' },
    body: JSON.stringify(chat('gone')),
    signal: leave.signal,
  }).catch((error) => error.name);
  await untilWaiting(poor);
  leave.abort();
  expect(await gone).toBe('AbortError');
  await until(async () => (await waiting(poor)) === 0, 2_000);
  await topUp(poor);
  expect(await ticketsOf(poor)).toMatchObject([{ status: 'open', waiting_calls: 0 }]);
  expect((await ask(poor, 'gone')).status).toBe(200);
});

test('at most so many calls are held per key and in all; places are given back', async () => {
  const bounded = await world.openGateway({
    settings: { cost_tickets: { hold_ms: 20_000, held_max: 3, held_per_key_max: 2 } },
  });
  const [poor, other] = [await makePoor(), await makePoor()];
  const send = (from: Poor, n: number) => post(bounded.url + CHAT, from.key, chat(`call ${n}`));
  const first = [send(poor, 1), send(poor, 2)];
  await untilWaiting(poor, 2);
  expect((await send(poor, 3)).status).toBe(402);
  const fourth = send(other, 4);
  await untilWaiting(other);
  expect((await send(other, 5)).status).toBe(402);
  await topUp(poor);
  expect((await Promise.all(first)).map(({ status }) => status)).toEqual([200, 200]);
  await topUp(other);
  expect((await fourth).status).toBe(200);
  const third = await makePoor();
  const again = send(third, 6);
  await untilWaiting(third);
  await topUp(third);
  expect((await again).status).toBe(200);
});

test('a gateway that drains answers its held calls with their tickets at once', async () => {
  const leaving = await world.openGateway({ settings: { cost_tickets: { hold_ms: 20_000 } } });
  const poor = await makePoor();
  const answer = post(leaving.url + CHAT, poor.key, chat('rolling update'));
  await untilWaiting(poor);
  const started_at = performance.now();
  await leaving.close();
  expect((await answer).status).toBe(402);
  expect(performance.now() - started_at).toBeLessThan(3_000);
  expect(await ticketsOf(poor)).toMatchObject([{ status: 'open' }]);
});

test('a key that is revoked while its call is held is refused when it asks again', async () => {
  const poor = await makePoor();
  const answer = ask(poor, 'revoked', { 'x-svc-hold-ms': '1500' });
  await untilWaiting(poor);
  await many(world.api.db, 'update tokens set revoked_at = now() where id = :id', {
    id: poor.key_id,
  });
  await topUp(poor);
  expect((await answer).status).toBe(401);
});

test('the control plane may break in the middle of a hold: the call goes on waiting, and is paid once', async () => {
  const wire = await openWire(world.api.url);
  const behind = await world.openGateway({
    api_urls: [wire.url],
    settings: { cost_tickets: { hold_ms: 20_000 } },
  });
  const poor = await makePoor();
  const answer = post(behind.url + CHAT, poor.key, chat('cut in the middle'));
  await untilWaiting(poor);
  wire.set('cut');
  await topUp(poor);
  wire.set('pass');
  expect((await answer).status).toBe(200);
  const holds = await many(
    world.api.db,
    `select id from reservations where org_id = :org_id and status <> 'canceled'`,
    { org_id: poor.org_id },
  );
  expect(holds).toHaveLength(1);
  await behind.close();
  await wire.close();
});

test('a top-up for 12 of 40 calls that two gateways hold at two APIs lets exactly the 12 oldest through', async () => {
  const poor = await makePoor();
  const second = await world.openGateway({
    api_urls: [approvers.url],
    settings: { cost_tickets: { hold_ms: 20_000 } },
  });
  const answered: number[] = [];
  const calls = [];
  for (let n = 0; n < 40; n += 1) {
    const { url } = n % 2 ? second : gateway;
    // No completion is paid for beyond one token, so that nothing to speak of is given back.
    const body = chat('one of forty', { max_tokens: 1, user: `u${100 + n}` });
    const sent = post(url + CHAT, poor.key, body);
    calls.push(sent);
    void sent.then(({ status }) => status === 200 && answered.push(n));
    await untilWaiting(poor, n + 1);
  }
  const { need } = await one<{ need: bigint }>(
    world.api.db,
    'select max(need_nanos) as need from ticket_waiters where org_id = :org_id and answer is null',
    { org_id: poor.org_id },
  );
  await topUp(poor, need * 12n);
  await until(() => answered.length >= 12, 10_000);
  expect(answered.sort((a, b) => a - b).slice(0, 12)).toEqual(
    Array.from({ length: 12 }, (_, n) => n),
  );
  await topUp(poor);
  expect((await Promise.all(calls)).every(({ status }) => status === 200)).toBe(true);
  await second.close();
}, 60_000);
