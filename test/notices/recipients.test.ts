import { randomBytes, randomUUID } from 'node:crypto';
import * as recipients from '../../domain/notices/recipients';
import { createSecrets } from '../../domain/secrets';
import { many } from '../../domain/sql';
import { makeTenant, secrets_key } from '../support/api';
import { makeShort } from '../support/tickets';
import { makeDestination, type NoticeWorld, openNoticeWorld, present } from './world';

// Addresses that are asked to confirm themselves, and what waits for them.

let world: NoticeWorld;
beforeAll(async () => {
  world = await openNoticeWorld();
});
afterEach(() => world.receiver.clearFaults());
afterAll(() => world.close());

/** A mail destination with an address that is to be confirmed, and what was mailed to it. */
async function makeAsked() {
  const tenant = await makeTenant(world.db);
  const key = tenant.owner_key;
  const { id } = await makeDestination(world, key, { channel: 'email' });
  const address = `${randomUUID()}@example.com`;
  const add = (to = address) =>
    world.call('post', `/v1/notice-destinations/${id}/recipients`, { key, body: { address: to } });
  const { body } = await add();
  const mails = () =>
    world.receiver.arrivals.filter(({ headers }) => headers.to?.includes(address));
  const codeOf = (n: number) =>
    present(() => /^Code: (\w+)/m.exec(mails().map((one) => one.body)[n] ?? '')?.[1]);
  const confirm = (code: string) =>
    world.call('post', `/v1/notice-recipients/${body.id}/confirm`, { key, body: { code } });
  return { tenant, key, id, address, add, mails, codeOf, confirm };
}

test('after five wrong codes the address gets another one at once, and no sooner', async () => {
  const { add, mails, codeOf, confirm } = await makeAsked();
  const first = await codeOf(0);
  await add();
  for (let n = 0; n < 5; n += 1) expect((await confirm('wrong')).status).toBe(422);
  expect((await confirm(first)).status).toBe(422);
  expect((await add()).status).toBe(201);
  const second = await codeOf(1);
  expect(second).not.toBe(first);
  expect((await confirm(second)).body.confirmed_at).not.toBeNull();
  expect(mails()).toHaveLength(2);
});

test('a code that was mailed before SVC_SECRETS_KEY got another first key confirms', async () => {
  const { tenant, codeOf, id } = await makeAsked();
  const code = await codeOf(0);
  const rotated = createSecrets(`${randomBytes(32).toString('base64')},${secrets_key}`);
  const [row] = await many<{ id: string }>(
    world.db,
    'select id from notice_recipients where destination_id = :id',
    { id },
  );
  const confirm = (text: string) =>
    recipients.confirm(world.db, rotated, tenant.org_id, { id: row?.id as string, code: text });
  expect(await confirm('wrong')).toBeUndefined();
  expect((await confirm(code))?.confirmed_at).not.toBeNull();
});

test('what waits at a destination leaves as its first address is confirmed', async () => {
  const { tenant, id, mails, codeOf, confirm } = await makeAsked();
  const code = await codeOf(0);
  await makeShort(world, 100, {}, tenant);
  await present(async () => {
    const [row] = await many<{ attempts: number }>(
      world.db,
      `select attempts from notice_messages where destination_id = :id and kind = 'ticket_created' and status = 'waiting' and attempts > 0`,
      { id },
    );
    return row;
  });
  await many(
    world.db,
    `update notice_messages set next_at = clock_timestamp() + interval '15 minutes' where destination_id = :id and status = 'waiting'`,
    { id },
  );
  expect((await confirm(code)).status).toBe(200);
  await present(() => mails().find((one) => one.body.includes('A request waits for approval')));
});

test('an address that the mail server does not know, or not yet, delays no notice to the others', async () => {
  const { tenant, key, id, add, mails, codeOf, confirm } = await makeAsked();
  expect((await confirm(await codeOf(0))).status).toBe(200);
  const typo = `${randomUUID()}@typo.example`;
  world.receiver.addFault({ path: `mail to ${typo}`, answer: 'error', status: 450, times: 0 });
  expect((await add(typo)).status).toBe(201);
  const log = `/v1/notice-messages?destination_id=${id}`;
  await present(async () => {
    const { messages } = (await world.call('get', log, { key })).body;
    return messages.find((one: { last_status: number }) => one.last_status === 450);
  });
  const [queue] = await many<{ failures: number }>(
    world.db,
    'select failures from notice_queues where destination_id = :id',
    { id },
  );
  expect(queue).toEqual({ failures: 0 });
  await makeShort(world, 100, {}, tenant);
  await present(() => mails().find((one) => one.body.includes('A request waits for approval')));
});
