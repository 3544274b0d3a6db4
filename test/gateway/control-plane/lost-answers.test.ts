import { setTimeout as sleep } from 'node:timers/promises';
import { request } from 'undici';
import { many } from '../../../domain/sql';
import {
  arrivals,
  chat,
  forgetArrivals,
  gatewayKey,
  lastCharge,
  lastEntries,
  openHolds,
  openWorld,
  post,
  type TestGateway,
  type World,
} from '../../support/gateway';
import { balance, credit, makeOrg } from '../../support/ledger';
import { until } from '../../support/until';
import { openWire, type Wire } from '../../support/wire';

let world: World;
let wire: Wire;
let models: Wire;
let gateway: TestGateway;
const path = '/v1/chat/completions';

beforeAll(async () => {
  world = await openWorld();
});

beforeEach(async () => {
  wire = await openWire(world.api.url);
  models = await openWire(world.models_url);
  const target = { base_url: `${models.url}/v1` };
  gateway = await world.openGateway({ api_urls: [wire.url], target });
});

afterEach(async () => {
  await gateway.close();
  await wire.close();
  await models.close();
});

afterAll(() => world.close());

/**
 * An organization whose key the gateway knows already, so that its next call goes straight to the
 * reserve; from then on that has the product's time, or such a patience.
 */
async function known(patience: TestGateway['patience'] = 'never') {
  const org = await makeOrg(world.api.db);
  await credit(world.api.db, org.org_id, org.org_wallet, 1_000_000_000n);
  const key = await gatewayKey(world.api, org.org_id);
  expect((await post(gateway.url + path, key, chat('Hello'))).status).toBe(200);
  await lastCharge(world, org.org_id);
  // Nothing but the call of the test travels over the wire.
  await until(() => gateway.gateway.events.count() === 0);
  await forgetArrivals(world.models_url);
  gateway.patience = patience;
  return { ...org, key, before: await balance(world.api.db, org.org_wallet) };
}

function reservations(org_id: string) {
  return world.api.db('reservations').where({ org_id }).orderBy('created_at');
}

function expectAway(answer: { status: number; headers: Record<string, unknown> }) {
  expect(answer.status).toBe(503);
  expect(Number(answer.headers['retry-after'])).toBeGreaterThanOrEqual(1);
}

test('a reserve whose first answer is lost is repeated with its id: one hold, and the call goes on', async () => {
  const { key, org_id } = await known('repeats');
  wire.set('swallow');
  const answering = post(gateway.url + path, key, chat('Hello'));
  await until(() => wire.lost() > 0);
  wire.set('pass');
  expect((await answering).status).toBe(200);
  await lastCharge(world, org_id);
  expect(await reservations(org_id)).toHaveLength(2);
});

test('a reserve whose answers are all lost: 503 with Retry-After, nothing goes upstream, and no hold remains', async () => {
  const { key, org_id, org_wallet, before } = await known();
  wire.set('swallow');
  expectAway(await post(gateway.url + path, key, chat('Hello')));
  wire.set('pass');
  await until(async () => (await openHolds(world.api, org_id)) === 0);
  const [, canceled] = await reservations(org_id);
  expect(canceled).toMatchObject({ status: 'released', outcome: 'canceled' });
  expect(await balance(world.api.db, org_wallet)).toEqual(before);
  expect(await arrivals(world.models_url)).toEqual([]);
});

test('a reserve that arrives after the gateway gave it up finds a tombstone and holds nothing', async () => {
  const { key, org_id, org_wallet, before } = await known();
  wire.set('late');
  const answering = post(gateway.url + path, key, chat('Hello'));
  await until(() => wire.lost() >= 2);
  wire.set('pass');
  expectAway(await answering);
  await until(async () => (await reservations(org_id)).length === 2);
  const before_release = wire.answered();
  wire.release();
  await until(() => wire.answered() >= before_release + 2);
  // The ledger takes an organization's calls in order, so earlier ones have been decided.
  expect((await post(world.url + path, key, chat('Hello'))).status).toBe(200);
  await until(async () => (await openHolds(world.api, org_id)) === 0);
  expect((await reservations(org_id)).map(({ status }) => status)).toEqual([
    'settled',
    'canceled',
    'settled',
  ]);
  const { balance_nanos } = await balance(world.api.db, org_wallet);
  const { actual_cost_nanos } = await lastCharge(world, org_id);
  expect(balance_nanos).toBe(before.balance_nanos - actual_cost_nanos);
});

test('an API that stands still for seconds leaves no hold of the calls that were given up meanwhile, whichever of their tries reached it', async () => {
  const { key, org_id, org_wallet, before } = await known();
  wire.set('late');
  const answering = [];
  for (let n = 0; n < 45; n += 1) {
    answering.push(post(gateway.url + path, key, chat(`Hello ${n}`)));
    await sleep(35);
  }
  for (const answer of await Promise.all(answering)) expectAway(answer);
  wire.set('pass');
  wire.release();
  await until(() => gateway.gateway.control_plane.unsettled() === 0);
  // Some reached it by their first try alone, the others never left the gateway: 32 batches were
  // out at most, with two tries of a call.
  expect((await reservations(org_id)).length).toBeGreaterThan(10);
  expect(await openHolds(world.api, org_id)).toBe(0);
  expect(await balance(world.api.db, org_wallet)).toEqual(before);
});

test('a call that was refused for want of money at its second try holds none by its first one, which comes later', async () => {
  const { key, org_id, org_wallet, user_wallet, before } = await known('repeats');
  const amount = before.balance_nanos;
  const move = (from: string, to: string) =>
    many(world.api.db, 'select * from transfer(:org_id, :from, :to, :amount, null)', {
      org_id,
      from,
      to,
      amount,
    });
  await move(org_wallet, user_wallet);
  wire.set('late');
  const answering = post(gateway.url + path, key, chat('Hello'), { 'x-svc-hold-ms': '0' });
  await until(() => wire.lost() > 0);
  wire.set('pass');
  expect((await answering).status).toBe(402);
  await until(() => gateway.gateway.control_plane.unsettled() === 0);
  await move(user_wallet, org_wallet);
  const before_release = wire.answered();
  wire.release();
  await until(() => wire.answered() > before_release);
  expect(await openHolds(world.api, org_id)).toBe(0);
  expect(await balance(world.api.db, org_wallet)).toEqual(before);
});

test('the control plane away while a stream ends: new calls are 503, readiness says so, the settlement is repeated and lands once', async () => {
  const { key, org_id } = await known();
  const content = 'Hello [[fault:chunks count=10]] [[fault:slow delay=10]]';
  models.keepAfter('{"content":"');
  const streaming = await request(gateway.url + path, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${key}` },
    body: JSON.stringify(chat(content, { stream: true })),
  });
  expect([streaming.statusCode, await openHolds(world.api, org_id)]).toEqual([200, 1]);
  wire.set('cut');
  // A refused call takes the two seconds that a reserve is given.
  const refused = await post(gateway.url + path, key, chat('Hello'));
  expectAway(refused);
  models.release();
  expect(await streaming.body.text()).toContain('[DONE]');
  expect((await request(`${gateway.url}/readyz`)).statusCode).toBe(503);
  expect((await request(`${gateway.url}/svc/health`)).statusCode).toBe(200);
  // The stream's, and the cancel of the refused call if its reserve may have arrived.
  expect([1, 2]).toContain(gateway.gateway.control_plane.unsettled());
  wire.set('pass');
  gateway.patience = 'always';
  const charge = await lastCharge(world, org_id);
  expect(charge).toMatchObject({ status: 'settled', usage_source: 'upstream' });
  await until(() => gateway.gateway.control_plane.unsettled() === 0);
  expect((await lastEntries(world, org_id)).map(({ type }) => type)).toEqual([
    'reservation',
    'settlement',
  ]);
  await until(async () => (await request(`${gateway.url}/readyz`)).statusCode === 200);
  expect((await post(gateway.url + path, key, chat('Hello'))).status).toBe(200);
});

test('a settlement whose answer is lost is repeated and charged once', async () => {
  const { key, org_id, org_wallet, before } = await known('always');
  models.keepAfter('');
  const answering = post(gateway.url + path, key, chat('Hello'));
  // Its hold has come back to the gateway, too.
  await until(async () => (await arrivals(world.models_url)).length === 1);
  gateway.patience = 'never';
  wire.set('swallow');
  models.release();
  expect((await answering).status).toBe(200);
  const charge = await lastCharge(world, org_id);
  await until(() => wire.lost() > 0);
  expect(gateway.gateway.control_plane.unsettled()).toBe(1);
  wire.set('pass');
  await until(() => gateway.gateway.control_plane.unsettled() === 0);
  const { balance_nanos } = await balance(world.api.db, org_wallet);
  expect(balance_nanos).toBe(before.balance_nanos - charge.actual_cost_nanos);
});

test('a client that leaves while its reserve is under way: nothing goes upstream, and no hold remains', async () => {
  const { key, org_id, org_wallet, before } = await known('always');
  wire.set('late');
  const leaving = new AbortController();
  const call = request(gateway.url + path, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${key}` },
    body: JSON.stringify(chat('Hello')),
    signal: leaving.signal,
  });
  await until(() => wire.lost() > 0);
  leaving.abort();
  await expect(call).rejects.toThrow();
  wire.set('pass');
  wire.release();
  await until(async () => (await reservations(org_id))[1]?.status === 'released');
  expect(await balance(world.api.db, org_wallet)).toEqual(before);
  expect(await arrivals(world.models_url)).toEqual([]);
});
