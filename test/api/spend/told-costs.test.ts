import { randomUUID } from 'node:crypto';
import { runPrices } from '../../../api/admin-prices';
import { openBatches } from '../../../api/ledger/batches';
import { events as exported } from '../../../domain/exports/record-kinds';
import { type Db, many, one } from '../../../domain/sql';
import { createLog } from '../../../runtime/log';
import { type CallApi, makeTenant, startApi, type Tenant, type TestApi } from '../../support/api';
import { untilVisible } from '../../support/database';
import { gatewayToken, platformKey } from '../../support/keys';
import { credit, makeOwnKey, makePrice, reserveBody, settleBody } from '../../support/ledger';
import { until } from '../../support/until';
import { follow } from '../routes/following';

// What a call cost the platform at its provider is the platform's own matter.

let api: TestApi;
let db: Db;
let call: CallApi;
let lanes: ReturnType<typeof openBatches>;
let tenant: Tenant;
let platform: string;
let own_key: string;

beforeAll(async () => {
  api = await startApi();
  ({ db, call } = api);
  lanes = openBatches(db, createLog('test', 'fatal'));
  await makePrice(db);
  tenant = await makeTenant(db);
  platform = await platformKey(db);
  await credit(db, tenant.org_id, tenant.wallet_id, 10n ** 12n);
  own_key = await makeOwnKey(db, tenant.org_id, { price_factor: 1 });
});

afterAll(async () => {
  await lanes.close();
  await api.close();
});

/** A settled call that its provider said to cost 0.0012 USD, and the gateway's event of it. */
async function settled(provider_key_id: string | null): Promise<{ id: string; event_id: string }> {
  const { org_id } = tenant;
  const id = randomUUID();
  const is_own = provider_key_id !== null;
  const hold = await lanes.reserve(
    reserveBody(org_id, 1_000, { request_id: id, ...(is_own && { own_keys: true }) }),
  );
  const by = { provider_cost_usd: '0.0012', ...(is_own && { provider_key_id }) };
  const row = await lanes.settle(settleBody(org_id, hold.reservation_id, 1_000, by));
  expect(row.code).toBeNull();
  const event = await one<{ id: string }>(
    db,
    `insert into events (id, created_at, org_id, type, request_id, payload)
     select q.id, id_time(q.id), :org_id, 'request.completed', :id, :payload from (select new_id('evt') as id) as q returning id`,
    { org_id, id, payload: JSON.stringify({ provider_key_id, provider_cost_usd: '0.0012' }) },
  );
  await untilVisible(db);
  return { id, event_id: event.id };
}

interface Seen {
  payload: { provider_cost_usd?: string };
}

/** Every way in which a reader is told of a call, and the figure that it says. */
async function seenBy(key: string, made: { id: string; event_id: string }) {
  const org = `org_id=${tenant.org_id}`;
  const story = (await call('get', `/v1/requests/${made.id}?${org}`, { key })).body;
  const list = (await call('get', `/v1/events?${org}&request_id=${made.id}`, { key })).body;
  const event = (await call('get', `/v1/events/${made.event_id}?${org}`, { key })).body;
  const of_event = ({ payload }: Seen) => payload.provider_cost_usd ?? null;
  return [
    story.provider_cost_usd,
    ...story.events.map(of_event),
    ...list.events.map(of_event),
    of_event(event),
  ];
}

test('the platform sees it in each place, and the organization in none', async () => {
  const made = await settled(null);
  expect(await seenBy(platform, made)).toEqual(Array(4).fill('0.0012'));
  expect(await seenBy(tenant.owner_key, made)).toEqual(Array(4).fill(null));
});

test('of a call by its own key the organization sees what its provider told', async () => {
  const made = await settled(own_key);
  expect(await seenBy(platform, made)).toEqual(Array(4).fill('0.0012'));
  expect(await seenBy(tenant.owner_key, made)).toEqual(Array(4).fill('0.0012'));
});

test('streams of events show it to the platform alone', async () => {
  const query = `?org_id=${tenant.org_id}&type=request.completed`;
  const readers = await Promise.all(
    [platform, tenant.owner_key].map((key) => follow(api.url, key, { query })),
  );
  const made = await settled(null);
  const said = readers.map(async (reader) => {
    await until(() => reader.ids.includes(made.event_id));
    reader.close();
    return JSON.stringify(reader.data).includes('0.0012');
  });
  expect(await Promise.all(said)).toEqual([true, false]);
});

test('exports of an organization leave it out, those of the platform do not', async () => {
  const { event_id } = await settled(null);
  const by_own = await settled(own_key);
  const rowsOf = async (org_id: string | null) => {
    const { snapshot } = await one<{ snapshot: string }>(
      db,
      'select pg_current_snapshot()::text as snapshot',
    );
    const bindings = { org_id, from: '2020-01-01', to: '2100-01-01', after: '', snapshot };
    const rows = await many<{ id: string; payload: unknown }>(db, exported.page, {
      ...bindings,
      ...{ is_first: true, events_after: null, limit: 1_000 },
    });
    return [event_id, by_own.event_id].map((id) =>
      JSON.stringify(rows.find((row) => row.id === id)?.payload).includes('0.0012'),
    );
  };
  expect(await rowsOf(tenant.org_id)).toEqual([false, true]);
  expect(await rowsOf(null)).toEqual([true, true]);
});

test('a check that does not know what is served fails, and does not say that all is in order', async () => {
  const lines: string[] = [];
  const code = await runPrices(db, ['check'], (line) => lines.push(line));
  expect([code, lines.at(-1)]).toEqual([1, expect.stringContaining('--targets gateway.yaml')]);
  expect(lines.join()).not.toContain('in order');
});

test('the check compares as many days as are asked for', async () => {
  for (let n = 0; n < 5; n += 1) await settled(null);
  const of = async (query: string) =>
    call('get', `/v1/admin/price-check${query}`, { key: platform });
  const { body } = await of('?days=30');
  expect(body.cost_days).toBe(30);
  expect(body.told_costs).toContainEqual(
    expect.objectContaining({ name: 'openai/gpt-4o-mini', ratio: '0.8333', standing: 'below' }),
  );
  expect((await of('')).body.cost_days).toBe(1);
  for (const days of ['0', '91', 'x']) expect((await of(`?days=${days}`)).status).toBe(422);
  const lines: string[] = [];
  const code = await runPrices(db, ['check', '--days', '30'], (line) => lines.push(line));
  expect(code).toBe(1);
  expect(lines.find((line) => line.startsWith('Warning: '))).toMatch(
    /^Warning: openai\/gpt-4o-mini: 0\.\d+ USD charged, 0\.\d+ by its provider \(0\.8333\), calls \d+, days 30: less is charged than the provider takes\.$/,
  );
  await expect(runPrices(db, ['check', '--days', '91'], () => undefined)).rejects.toThrow('--days');
});

test.each(['-1', '1e3', '', '10001', 'NaN', 0.5, '100000'])(
  'a settlement with the figure %j is refused by its name, and nothing is written',
  async (provider_cost_usd) => {
    const { org_id } = tenant;
    const hold = await lanes.reserve(reserveBody(org_id, 10));
    const body = { ...settleBody(org_id, hold.reservation_id, 10), provider_cost_usd };
    const key = await gatewayToken(db);
    const refused = await call('post', '/v1/gateway/wallets/settle', { key, body });
    expect([refused.status, refused.body.error.param]).toEqual([422, 'provider_cost_usd']);
    await lanes.settle(settleBody(org_id, hold.reservation_id, 10));
  },
);
