import { createServer } from 'node:http';
import { json } from 'node:stream/consumers';
import { request } from 'undici';
import { decimalText } from '../../../domain/money';
import { many, one } from '../../../domain/sql';
import { listen } from '../../../runtime/listen';
import { chat, gatewayKey, lastCharge, post } from '../../support/gateway';
import { until } from '../../support/until';
import { openWire } from '../../support/wire';
import {
  approvers,
  ask,
  CHAT,
  decide,
  gateway,
  makePoor,
  type Poor,
  ticketsOf,
  topUp,
  untilWaiting,
  waiting,
  world,
} from './poor';

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
  await until(async () => (await waiting(poor)) === 0);
  await topUp(poor);
  expect(await ticketsOf(poor)).toMatchObject([{ status: 'open', waiting_calls: 0 }]);
  expect((await ask(poor, 'gone')).status).toBe(200);
});

test('a call that waited and was approved tells its cost, and one that was denied tells none', async () => {
  const headers = { 'x-svc-include-cost': 'true' };
  const poor = await makePoor();
  const held = ask(poor, 'Hello', headers);
  await untilWaiting(poor);
  await topUp(poor, 1n);
  expect((await decide(poor, 'approve', { amount: 0.5 })).status).toBe(200);
  const { status, text, headers: told } = await held;
  const { actual_cost_nanos } = await lastCharge(world, poor.org_id);
  expect([status, JSON.parse(text).usage.cost_details.cost, told['x-svc-cost']]).toEqual([
    200,
    decimalText(actual_cost_nanos),
    decimalText(actual_cost_nanos),
  ]);
  const other = await makePoor();
  const refused = ask(other, 'Hello', headers);
  await untilWaiting(other);
  expect((await decide(other, 'deny')).status).toBe(200);
  expect((await refused).status).toBe(403);
  expect((await refused).headers['x-svc-cost']).toBeUndefined();
});

test('at most so many calls are held per key and in all; places are given back', async () => {
  const bounded = await world.openGateway({
    settings: { cost_tickets: { hold_ms: 600_000, held_max: 3, held_per_key_max: 2 } },
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

test.each([
  ['half of the places', { held_max: 4, held_per_key_max: 2 }, 2],
  ['as many as its share says', { held_max: 4, held_per_org_max: 3, held_per_key_max: 4 }, 3],
])(
  'the keys of one organization take %s, so that another one’s call is held too',
  async (_, places, most) => {
    const { url } = await world.openGateway({
      settings: { cost_tickets: { hold_ms: 600_000, ...places } },
    });
    const [many_keys, other] = [await makePoor(), await makePoor()];
    const keys = [many_keys.key, await gatewayKey(world.api, many_keys.org_id)];
    const send = (key: string, n: number) => post(url + CHAT, key, chat(`call ${n}`));
    const held = Array.from({ length: most }, (_, n) => send(keys[n % 2] as string, n));
    await untilWaiting(many_keys, most);
    for (const key of keys) expect((await send(key, 9)).status).toBe(402);
    const one = send(other.key, 1);
    await untilWaiting(other);
    await topUp(other);
    expect((await one).status).toBe(200);
    await topUp(many_keys);
    for (const { status } of await Promise.all(held)) expect(status).toBe(200);
  },
);

test('bodies of held calls take no more than a key’s share of the bytes; another’s are held, and each that ends makes room', async () => {
  const { url } = await world.openGateway({
    settings: { cost_tickets: { hold_ms: 600_000, held_limit_bytes: 100_000 } },
  });
  const [poor, other] = [await makePoor(), await makePoor()];
  const send = (from: Poor, words: string) =>
    post(url + CHAT, from.key, chat(`${words} ${'x'.repeat(20_000)}`));
  const first = send(poor, 'first');
  await untilWaiting(poor);
  const beyond = await send(poor, 'second');
  expect([beyond.status, JSON.parse(beyond.text).cost_ticket.status]).toEqual([402, 'open']);
  const others = send(other, 'other');
  await untilWaiting(other);
  await topUp(poor);
  expect((await first).status).toBe(200);
  await topUp(other);
  expect((await others).status).toBe(200);
  const third = await makePoor();
  const again = [send(third, 'one'), post(url + CHAT, third.key, chat('a small one'))];
  await untilWaiting(third, 2);
  await topUp(third);
  for (const { status } of await Promise.all(again)) expect(status).toBe(200);
});

test('a gateway that drains answers its held calls with their tickets at once', async () => {
  const leaving = await world.openGateway({ settings: { cost_tickets: { hold_ms: 600_000 } } });
  const poor = await makePoor();
  const answer = post(leaving.url + CHAT, poor.key, chat('rolling update'));
  await untilWaiting(poor);
  await leaving.close();
  // Who is not answered loses its connection.
  expect((await answer).status).toBe(402);
  expect(await ticketsOf(poor)).toMatchObject([{ status: 'open' }]);
});

test('a key that is revoked while its call is held is refused when it asks again', async () => {
  // A hold that ends before its wallet is filled proves nothing.
  for (const hold_ms of ['1500', '6000', '24000']) {
    const poor = await makePoor();
    const answer = ask(poor, 'revoked', { 'x-svc-hold-ms': hold_ms });
    const over = answer.then(() => true);
    const isOver = () => Promise.race([over, false]);
    await until(async () => (await waiting(poor)) === 1 || (await isOver()));
    await many(world.api.db, 'update tokens set revoked_at = now() where id = :id', {
      id: poor.key_id,
    });
    await topUp(poor);
    const { status } = await answer;
    if (status === 402 && hold_ms !== '24000') continue;
    expect(status).toBe(401);
    return;
  }
});

test('the control plane may break in the middle of a hold: the call goes on waiting, and is paid once', async () => {
  const wire = await openWire(world.api.url);
  const behind = await world.openGateway({
    api_urls: [wire.url],
    settings: { cost_tickets: { hold_ms: 600_000 } },
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

/** An API that stops: it answers as ours, but lets no redeem wait. */
async function openStopping() {
  let redeems = 0;
  const server = createServer(async (req, res) => {
    const given = req.method === 'GET' ? undefined : ((await json(req)) as object);
    const is_redeem = req.url?.endsWith('/redeem-ticket') === true;
    if (is_redeem) redeems += 1;
    const { host: _, connection: __, 'content-length': ___, ...headers } = req.headers;
    const { statusCode, body } = await request(world.api.url + req.url, {
      method: req.method as 'POST',
      headers: headers as Record<string, string>,
      body: given ? JSON.stringify(is_redeem ? { ...given, wait_ms: 0 } : given) : null,
    });
    res.writeHead(statusCode, { 'content-type': 'application/json' }).end(await body.text());
  });
  const url = `http://127.0.0.1:${await listen(server, 0)}`;
  return { url, redeems: () => redeems, close: () => server.close() };
}

test('an API that stops answers held calls at once: they ask again after a pause, until they are paid or their hold ends', async () => {
  const stopping = await openStopping();
  const behind = await world.openGateway({
    api_urls: [stopping.url],
    settings: { cost_tickets: { hold_ms: 600_000 } },
  });
  const poor = await makePoor();
  const headers = { 'x-svc-hold-ms': '1000' };
  expect((await post(behind.url + CHAT, poor.key, chat('ends'), headers)).status).toBe(402);
  // One at once, and one after each quarter of a second.
  expect(stopping.redeems()).toBeGreaterThan(0);
  expect(stopping.redeems()).toBeLessThanOrEqual(6);
  const before = stopping.redeems();
  const held = post(behind.url + CHAT, poor.key, chat('is paid'));
  await until(() => stopping.redeems() > before);
  await topUp(poor);
  expect((await held).status).toBe(200);
  await behind.close();
  stopping.close();
});

test('a top-up for 12 of 40 calls that two gateways hold at two APIs lets exactly the 12 oldest through', async () => {
  const poor = await makePoor();
  const second = await world.openGateway({
    api_urls: [approvers.url],
    settings: { cost_tickets: { hold_ms: 600_000 } },
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
  await until(() => answered.length >= 12);
  expect(answered.sort((a, b) => a - b).slice(0, 12)).toEqual(
    Array.from({ length: 12 }, (_, n) => n),
  );
  await topUp(poor);
  expect((await Promise.all(calls)).every(({ status }) => status === 200)).toBe(true);
  await second.close();
});
