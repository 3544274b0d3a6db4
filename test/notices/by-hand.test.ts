import { randomUUID } from 'node:crypto';
import { many } from '../../domain/sql';
import { makeTenant } from '../support/api';
import { until } from '../support/until';
import { makeDestination, type NoticeWorld, openNoticeWorld, present } from './world';

let world: NoticeWorld;
beforeAll(async () => {
  world = await openNoticeWorld();
});
afterAll(() => world.close());

const arrived = (path: string) => world.receiver.arrivals.filter((one) => one.path === path);
const first = (path: string) => present(() => arrived(path)[0]);

test('the test button goes the whole way, and a message is sent once more by hand under its own id', async () => {
  const tenant = await makeTenant(world.db);
  const key = tenant.owner_key;
  const path = `/hooks/${randomUUID()}`;
  const { id } = await makeDestination(world, key, { channel: 'webhook', path });
  const tried = await world.call('post', `/v1/notice-destinations/${id}/test`, { key });
  expect(tried).toMatchObject({ status: 201, body: { kind: 'test', status: 'waiting' } });
  expect((await first(path)).body.type).toBe('test');
  const replay = `/v1/notice-messages/${tried.body.id}/replay`;
  expect((await world.call('post', replay, { key })).status).toBe(200);
  const again = await present(() => arrived(path)[1]);
  expect(again.headers['webhook-id']).toBe(tried.body.id);
});

test('a destination gets ten tests a minute, whoever asks at one moment', async () => {
  const tenant = await makeTenant(world.db);
  const key = tenant.owner_key;
  const path = `/hooks/${randomUUID()}`;
  const { id } = await makeDestination(world, key, { channel: 'webhook', path });
  const other = await makeDestination(world, key, { channel: 'webhook', path });
  const send = (to = id) => world.call('post', `/v1/notice-destinations/${to}/test`, { key });
  const answers = await Promise.all(Array.from({ length: 13 }, () => send()));
  expect(answers.filter(({ status }) => status === 201)).toHaveLength(10);
  const refused = answers.filter(({ status }) => status !== 201);
  expect(refused.map(({ status, body }) => [status, body.error.code])).toEqual(
    Array.from({ length: 3 }, () => [429, 'rate_limit_exceeded']),
  );
  expect(refused[0]?.headers['x-ratelimit-limit']).toBe('10');
  expect(Number(refused[0]?.headers['retry-after'])).toBeGreaterThan(0);
  expect((await send(other.id)).status).toBe(201);
  await many(
    world.db,
    `update notice_messages set created_at = created_at - interval '1 minute' where destination_id = :id`,
    { id },
  );
  expect((await send()).status).toBe(201);
});

test('a message waits for one replay at a time', async () => {
  const tenant = await makeTenant(world.db);
  const key = tenant.owner_key;
  const { id: destination_id } = await makeDestination(world, key, { channel: 'email' });
  const [made] = await many<{ id: string }>(
    world.db,
    `insert into notice_messages (destination_id, kind, notice_count, next_at)
     values (:destination_id, 'payment', 0, clock_timestamp() + interval '1 hour') returning id`,
    { destination_id },
  );
  const message = `/v1/notice-messages/${made?.id}`;
  const replay = () => world.call('post', `${message}/replay`, { key });
  // As while its destination fails: nothing takes it in the meantime.
  await many(
    world.db,
    `create function not_now() returns trigger language plpgsql as $$ begin
       new.next_at := clock_timestamp() + interval '1 hour'; return new; end $$`,
  );
  await many(
    world.db,
    `create trigger not_now before update on notice_messages for each row
     when (new.destination_id = '${destination_id}' and new.status = 'waiting') execute function not_now()`,
  );
  expect((await replay()).status).toBe(200);
  const second = await replay();
  expect([second.status, second.body.error.code]).toEqual([429, 'rate_limit_exceeded']);
  expect(Number(second.headers['retry-after'])).toBeGreaterThan(3_000);
  await many(world.db, `update notice_messages set status = 'failed' where id = :id`, {
    id: made?.id,
  });
  expect((await replay()).status).toBe(200);
  // What has arrived is sent again once a minute, and not in a loop.
  const arrived = (column = '') =>
    many(
      world.db,
      `update notice_messages set status = 'delivered', delivered_at = now() ${column} where id = :id`,
      { id: made?.id },
    );
  await arrived();
  const third = await replay();
  expect([third.status, third.body.error.code]).toEqual([429, 'rate_limit_exceeded']);
  expect(Number(third.headers['retry-after'])).toBeLessThanOrEqual(60);
  await arrived(`, replayed_at = now() - interval '61 seconds'`);
  expect((await replay()).status).toBe(200);
  await many(world.db, 'drop trigger not_now on notice_messages');
});

test('a test that is sent once more counts as one more test, and not twice a minute', async () => {
  const { owner_key: key } = await makeTenant(world.db);
  const path = `/hooks/${randomUUID()}`;
  const { id } = await makeDestination(world, key, { channel: 'webhook', path });
  const send = () => world.call('post', `/v1/notice-destinations/${id}/test`, { key });
  const replay = (one: string) => world.call('post', `/v1/notice-messages/${one}/replay`, { key });
  const tests = await Promise.all(Array.from({ length: 9 }, send));
  const [one, other] = tests.map(({ body }) => body.id);
  await present(() => arrived(path)[8]);
  expect((await replay(one)).status).toBe(200);
  await present(() => arrived(path)[9]);
  for (const answer of [await replay(other), await send()])
    expect([answer.status, answer.body.error.code]).toEqual([429, 'rate_limit_exceeded']);
  await many(
    world.db,
    `update notice_messages set created_at = created_at - interval '1 minute' where destination_id = :id`,
    { id },
  );
  await until(async () => {
    const [row] = await many<{ status: string }>(
      world.db,
      'select status from notice_messages where id = :one',
      { one },
    );
    return row?.status === 'delivered';
  });
  const again = await replay(one);
  expect([again.status, again.headers['x-ratelimit-limit']]).toEqual([429, '1']);
  expect(Number(again.headers['retry-after'])).toBeGreaterThan(30);
  expect((await replay(other)).status).toBe(200);
});

test.each(['fresh', 'a day old', 'of an address that is confirmed'])(
  'a code that is %s is not mailed once more by its message',
  async (kind) => {
    const { owner_key: key } = await makeTenant(world.db);
    const { id } = await makeDestination(world, key, { channel: 'email' });
    const address = `${randomUUID()}@example.com`;
    const path = `/v1/notice-destinations/${id}/recipients`;
    const added = await world.call('post', path, { key, body: { address } });
    expect(added.status).toBe(201);
    const mails = () => arrived('mail').filter(({ headers }) => headers.to?.includes(address));
    await present(() => mails()[0]);
    const list = `/v1/notice-messages?destination_id=${id}`;
    const message = await present(async () => {
      const { body } = await world.call('get', list, { key });
      return body.messages.find((each: { status: string }) => each.status === 'delivered');
    });
    expect(message.kind).toBe('confirmation');
    const age = kind === 'a day old' ? '25 hours' : '0';
    const confirmed = kind === 'of an address that is confirmed';
    await many(
      world.db,
      `update notice_recipients set asked_at = asked_at - cast(:age as interval),
         confirmed_at = case when :confirmed then clock_timestamp() end where destination_id = :id`,
      { id, age, confirmed },
    );
    const refused = await world.call('post', `/v1/notice-messages/${message.id}/replay`, { key });
    expect(refused).toMatchObject({
      status: 422,
      body: { error: { param: 'id', message: 'Add the address again for another code.' } },
    });
    const { body } = await world.call('get', list, { key });
    expect(body.messages).toMatchObject([{ id: message.id, replayed_at: null }]);
    expect(mails()).toHaveLength(1);
  },
);

test('the secret of a webhook is shown to a repeat under its Idempotency-Key, and kept in no answer', async () => {
  const { owner_key: key } = await makeTenant(world.db);
  const id = randomUUID();
  const body = { name: 'hook', channel: 'webhook', url: `${world.receiver_url}/hooks/kept` };
  const headers = { 'idempotency-key': id };
  const make = () => world.call('post', '/v1/notice-destinations', { key, body, headers });
  const first = await make();
  expect(first.status).toBe(201);
  expect(first.body.secret).toMatch(/^whsec_/);
  const again = await make();
  expect([again.status, again.text]).toEqual([201, first.text]);
  const [kept] = await many<{ text: string }>(
    world.db,
    'select k::text as text from idempotency_keys k where k.key = :id',
    { id },
  );
  expect(kept?.text).toContain(first.body.id);
  expect(kept?.text).not.toContain(first.body.secret);
  // A secret that somebody else has set since is nobody's to read.
  const at = `/v1/notice-destinations/${first.body.id}`;
  const other = `whsec_${Buffer.alloc(32, 'b').toString('base64')}`;
  expect(
    (await world.call('put', at, { key, body: { url: body.url, secret: other } })).status,
  ).toBe(200);
  expect((await make()).body).toMatchObject({ id: first.body.id, secret: null });
  expect((await world.call('delete', at, { key })).status).toBe(200);
  expect((await make()).body.secret).toBeNull();
});
