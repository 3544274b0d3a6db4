import { many, one } from '../../../domain/sql';
import { makePerson, makeTenant, startApi, type Tenant, type TestApi } from '../../support/api';
import { until } from '../../support/until';
import { follow } from '../routes/following';

let api: TestApi;
let tenant: Tenant;

beforeAll(async () => {
  api = await startApi({ trusted_proxies: ['127.0.0.0/8'] });
  tenant = await makeTenant(api.db);
});

afterAll(() => api.close());

/** A session that was used half an hour ago. */
async function makeIdle(): Promise<{ id: string; key: string; idle_s: () => Promise<number> }> {
  const { key: access_key } = await makePerson(api, tenant, 'billing_admin');
  const { body } = await api.call('post', '/v1/sessions', { body: { access_key } });
  const { id, key } = body;
  await many(
    api.db,
    "update tokens set last_used_at = clock_timestamp() - interval '30 minutes' where id = :id",
    { id },
  );
  const idle_s = async () => {
    const { idle } = await one<{ idle: number }>(
      api.db,
      'select extract(epoch from clock_timestamp() - last_used_at)::int as idle from tokens where id = :id',
      { id },
    );
    return idle;
  };
  return { id, key, idle_s };
}

test('what a page asks by itself is answered, and is no use of its session', async () => {
  const { key, idle_s } = await makeIdle();
  const headers = { 'x-svc-unattended': '1' };
  expect((await api.call('get', '/v1/me', { key, headers })).status).toBe(200);
  expect((await api.call('get', '/v1/wallets', { key, headers })).status).toBe(200);
  expect(await idle_s()).toBeGreaterThanOrEqual(1_800);
  expect((await api.call('get', '/v1/me', { key })).status).toBe(200);
  expect(await idle_s()).toBeLessThan(1_800);
});

test('a person and a page that ask in one moment are use', async () => {
  const { key, idle_s } = await makeIdle();
  const headers = { 'x-svc-unattended': '1' };
  const asked = [{ key, headers }, { key }, { key, headers }, { key, headers }];
  await Promise.all(asked.map((more) => api.call('get', '/v1/me', more)));
  expect(await idle_s()).toBeLessThan(1_800);
});

test('an open stream does not keep its session, which ends it after the hour', async () => {
  const { id, key, idle_s } = await makeIdle();
  const headers = { 'x-svc-unattended': '1' };
  const seen = await follow(api.url, key, { headers });
  await until(() => seen.beats > 0);
  expect(await idle_s()).toBeGreaterThanOrEqual(1_800);
  await many(
    api.db,
    "update tokens set last_used_at = clock_timestamp() - interval '61 minutes' where id = :id",
    { id },
  );
  await until(() => seen.has_ended());
  // Begun by a person it is one use, and its heartbeats are none.
  const again = await makeIdle();
  const begun = await follow(api.url, again.key);
  expect(await again.idle_s()).toBeLessThan(1_800);
  await many(
    api.db,
    "update tokens set last_used_at = clock_timestamp() - interval '30 minutes' where id = :id",
    { id: again.id },
  );
  await until(() => begun.beats > 0);
  expect(await again.idle_s()).toBeGreaterThanOrEqual(1_800);
  begun.close();
});

test('a key of a program is noted whatever it says', async () => {
  const { key, user_id } = await makePerson(api, tenant, 'member');
  await api.call('get', '/v1/me', { key, headers: { 'x-svc-unattended': '1' } });
  const { noted } = await one<{ noted: boolean }>(
    api.db,
    `select last_used_at is not null as noted from tokens where user_id = :user_id and purpose = 'key'`,
    { user_id },
  );
  expect(noted).toBe(true);
});
