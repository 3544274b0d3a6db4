import { randomUUID } from 'node:crypto';
import { Webhook } from 'standardwebhooks';
import { many } from '../../domain/sql';
import { makeTenant } from '../support/api';
import { leastOf } from '../support/cpu';
import { makeShort, verdictMs } from '../support/tickets';
import { until } from '../support/until';
import { makeDestination, type NoticeWorld, openNoticeWorld, PUBLIC_URL, present } from './world';

let world: NoticeWorld;
beforeAll(async () => {
  world = await openNoticeWorld();
});
afterAll(() => world.close());

const arrived = (path: string) => world.receiver.arrivals.filter((one) => one.path === path);
const first = (path: string) => present(() => arrived(path)[0]);

test('a refused reserve is at the webhook within a second, signed as the Standard Webhooks verify it', async () => {
  const tenant = await makeTenant(world.db);
  const path = `/hooks/${randomUUID()}`;
  const made = await makeDestination(world, tenant.owner_key, { channel: 'webhook', path });
  // The first message of a worker pays for its start.
  await world.call('post', `/v1/notice-destinations/${made.id}/test`, { key: tenant.owner_key });
  await first(path);
  let ticket_id = '';
  // Of a second, or of the time of ten verdicts where the machine is busy.
  const share = await leastOf(5, 1, async () => {
    const second_ms = Math.max(1_000, 10 * (await verdictMs(world)));
    const before = arrived(path).length;
    ({ ticket_id } = await makeShort(world, 100, { org_id: tenant.org_id }, tenant));
    const refused_at = performance.now();
    await until(() => arrived(path).length > before);
    return (performance.now() - refused_at) / second_ms;
  });
  expect(share).toBeLessThan(1);
  const { headers, body } = await present(() => arrived(path).at(-1));
  const given = new Webhook(made.secret).verify(JSON.stringify(body), headers as never);
  expect(given).toMatchObject({
    type: 'ticket_created',
    data: {
      count: 1,
      inbox_url: `${PUBLIC_URL}/approvals`,
      notices: [{ cost_ticket_id: ticket_id, url: `${PUBLIC_URL}/approvals#ticket=${ticket_id}` }],
    },
  });
  const { body: log } = await world.call('get', `/v1/notices?cost_ticket_id=${ticket_id}`, {
    key: tenant.owner_key,
  });
  expect(log.notices).toEqual([
    expect.objectContaining({ kind: 'ticket_created', message_id: headers['webhook-id'] }),
  ]);
  const id = log.notices[0].message_id;
  await until(async () => {
    const answer = await world.call('get', `/v1/notice-messages/${id}`, { key: tenant.owner_key });
    return answer.body.status === 'delivered' && answer.body.last_status === 200;
  });
});

test('Slack and Teams get a ticket with its page and a link for each verdict', async () => {
  const tenant = await makeTenant(world.db);
  await many(world.db, `update organizations set name = '<!channel> *A* & [B](x)' where id = :id`, {
    id: tenant.org_id,
  });
  const name = randomUUID();
  for (const channel of ['slack', 'teams'] as const)
    await makeDestination(world, tenant.owner_key, { channel, path: `/${channel}/${name}` });
  const { ticket_id } = await makeShort(world, 100, {}, tenant);
  const slack = await first(`/slack/${name}`);
  const teams = await first(`/teams/${name}`);
  const [section, fields, actions] = slack.body.blocks;
  expect(section.text.type).toBe('plain_text');
  expect(fields.fields).toContainEqual({
    type: 'plain_text',
    text: 'Organization: <!channel> *A* & [B](x)',
  });
  const [approve, deny, open] = actions.elements;
  expect(open.url).toBe(`${PUBLIC_URL}/approvals#ticket=${ticket_id}`);
  for (const { url } of [approve, deny])
    expect(url).toMatch(/^https:\/\/svc\.example\/approvals#link=[\w-]{43}$/);
  const { content } = teams.body.attachments[0];
  expect(content.actions.map(({ type }: { type: string }) => type)).toEqual(
    Array(3).fill('Action.OpenUrl'),
  );
  const facts = content.body[1].facts as { title: string; value: string }[];
  expect(facts.find(({ title }) => title === 'Organization')?.value).toBe(
    '&lt;!channel\\> \\*A\\* & \\[B\\]\\(x\\)',
  );
  // The database keeps hashes alone.
  const kept = JSON.stringify(await many(world.db, 'select * from ticket_links'));
  expect(kept).not.toContain(approve.url.split('=')[1]);
  // The address of a channel is a secret: no answer has it.
  const listed = await world.call('get', '/v1/notice-destinations', { key: tenant.owner_key });
  expect(listed.text).not.toContain(name);
});

test('mail goes to whoever entered the code that was mailed, and names end no header', async () => {
  const tenant = await makeTenant(world.db);
  const key = tenant.owner_key;
  await many(
    world.db,
    `update organizations set name = E'A\\r\\nBcc: x@example.com <b>' where id = :id`,
    {
      id: tenant.org_id,
    },
  );
  const { id } = await makeDestination(world, key, { channel: 'email' });
  const path = `/v1/notice-destinations/${id}/recipients`;
  const address = `${randomUUID()}@example.com`;
  const added = await world.call('post', path, { key, body: { address } });
  expect(added).toMatchObject({ status: 201, body: { address, confirmed_at: null } });
  const mails = () => arrived('mail').filter(({ headers }) => headers.to?.includes(address));
  await makeShort(world, 100, {}, tenant);
  const code = await present(() => /^Code: (\w+)/m.exec(mails()[0]?.body ?? '')?.[1]);
  const confirm = (given: string) =>
    world.call('post', `/v1/notice-recipients/${added.body.id}/confirm`, {
      key,
      body: { code: given },
    });
  expect(await confirm('wrong')).toMatchObject({ status: 422, body: { error: { param: 'code' } } });
  expect(await confirm(code)).toMatchObject({ status: 200, body: { address } });
  await makeShort(world, 100, {}, tenant);
  const mail = await present(() => mails()[1]);
  expect(mail.body).toContain('Subject: A request waits for approval');
  const [head, ...parts] = mail.body.replace(/=\r\n/g, '').split('\r\n\r\n');
  expect(head).not.toMatch(/bcc/i);
  expect(parts.join('')).toContain('<td>A Bcc: x@example.com &lt;b&gt;</td>');
  // Five wrong codes make a code worthless, the right one too.
  const second = await world.call('post', path, { key, body: { address: `b-${address}` } });
  const guess = (given: string) =>
    world.call('post', `/v1/notice-recipients/${second.body.id}/confirm`, {
      key,
      body: { code: given },
    });
  const right = await present(() => {
    const found = arrived('mail').find(({ headers }) => headers.to?.includes(`b-${address}`));
    return /^Code: (\w+)/m.exec(found?.body ?? '')?.[1];
  });
  for (let n = 0; n < 5; n += 1) expect((await guess('wrong')).status).toBe(422);
  expect((await guess(right)).status).toBe(422);
});

test('an address gets no more than five codes an hour, however often it is taken out and added', async () => {
  const tenant = await makeTenant(world.db);
  const key = tenant.owner_key;
  const [one, other] = [
    await makeDestination(world, key, { channel: 'email' }),
    await makeDestination(world, key, { channel: 'email' }),
  ];
  const address = `${randomUUID()}@example.com`;
  const add = (id: string, to = address) =>
    world.call('post', `/v1/notice-destinations/${id}/recipients`, { key, body: { address: to } });
  for (let n = 0; n < 5; n += 1) {
    const added = await add(n % 2 === 0 ? one.id : other.id);
    expect(added.status).toBe(201);
    await world.call('delete', `/v1/notice-recipients/${added.body.id}`, { key });
  }
  for (const id of [one.id, other.id])
    expect((await add(id, address.toUpperCase())).body.error).toMatchObject({
      param: 'address',
      message: expect.stringContaining('5 codes'),
    });
  expect((await add(one.id, `other-${address}`)).status).toBe(201);
  // Another organization asks for itself.
  const elsewhere = await makeTenant(world.db);
  const own = await makeDestination(world, elsewhere.owner_key, { channel: 'email' });
  const asked = await world.call('post', `/v1/notice-destinations/${own.id}/recipients`, {
    key: elsewhere.owner_key,
    body: { address },
  });
  expect(asked.status).toBe(201);
  await many(world.db, `update notice_codes set sent_at = sent_at - interval '61 minutes'`, {});
  expect((await add(one.id)).status).toBe(201);
});

/** A mail destination with two confirmed recipients, and the log of its messages. */
async function makeTwo() {
  const tenant = await makeTenant(world.db);
  const key = tenant.owner_key;
  const { id } = await makeDestination(world, key, { channel: 'email' });
  const tag = randomUUID();
  const [late, prompt] = [`late-${tag}@example.com`, `prompt-${tag}@example.com`];
  for (const address of [late, prompt])
    await many(
      world.db,
      `insert into notice_recipients (destination_id, address, confirmed_at) values (:id, :address, clock_timestamp())`,
      { id, address },
    );
  const delivered = () =>
    present(async () => {
      const log = `/v1/notice-messages?destination_id=${id}`;
      const { messages } = (await world.call('get', log, { key })).body;
      return messages[0]?.status === 'delivered' ? messages[0] : undefined;
    });
  const told = () =>
    arrived('mail')
      .map(({ headers }) => headers.to)
      .filter((to) => to?.includes(late) || to?.includes(prompt));
  return { tenant, key, late, prompt, delivered, told };
}

test('whoever a mail server puts off is told later, and nobody twice', async () => {
  const { tenant, key, late, prompt, delivered, told } = await makeTwo();
  world.receiver.addFault({ path: `mail to ${late}`, answer: 'error', status: 451 });
  await makeShort(world, 100, {}, tenant);
  const message = await delivered();
  expect(message).toMatchObject({ attempts: 2, last_status: 250, last_error: null });
  expect(told()).toEqual([[prompt], [late]]);
  // Once more by hand is for both.
  const replay = `/v1/notice-messages/${message.id}/replay`;
  expect((await world.call('post', replay, { key })).status).toBe(200);
  await present(() => told()[2]);
  expect(new Set(told()[2])).toEqual(new Set([late, prompt]));
});

test('whoever is put off again and again holds up nobody else', async () => {
  const { tenant, late, prompt, told } = await makeTwo();
  world.receiver.addFault({ path: `mail to ${late}`, answer: 'error', status: 452, times: 0 });
  await makeShort(world, 100, {}, tenant);
  await until(async () => {
    const [message] = await many<{ attempts: number }>(
      world.db,
      `select m.attempts from notice_messages m join notice_destinations d on d.id = m.destination_id where d.org_id = :org_id`,
      { org_id: tenant.org_id },
    );
    return (message?.attempts ?? 0) >= 3;
  });
  const [queue] = await many(
    world.db,
    `select q.failures from notice_queues q join notice_destinations d on d.id = q.destination_id where d.org_id = :org_id`,
    { org_id: tenant.org_id },
  );
  expect(queue).toEqual({ failures: 0 });
  expect(told()).toEqual([[prompt]]);
  world.receiver.clearFaults();
});

test('whoever is put off and then refused for good is named, and the message is through', async () => {
  const { tenant, late, prompt, delivered, told } = await makeTwo();
  for (const status of [451, 550])
    world.receiver.addFault({ path: `mail to ${late}`, answer: 'error', status });
  await makeShort(world, 100, {}, tenant);
  expect(await delivered()).toMatchObject({
    ...{ attempts: 2, last_status: 550, last_error: `The mail server refused ${late}.` },
  });
  expect(told()).toEqual([[prompt]]);
});

test('a destination that is removed keeps nothing that it was reached by', async () => {
  const tenant = await makeTenant(world.db);
  const key = tenant.owner_key;
  const path = `/slack/${randomUUID()}`;
  const slack = await makeDestination(world, key, { channel: 'slack', path });
  const mail = await makeDestination(world, key, { channel: 'email' });
  const address = `${randomUUID()}@example.com`;
  const recipients = `/v1/notice-destinations/${mail.id}/recipients`;
  expect((await world.call('post', recipients, { key, body: { address } })).status).toBe(201);
  for (const { id } of [slack, mail]) {
    const removed = await world.call('delete', `/v1/notice-destinations/${id}`, { key });
    expect(removed).toMatchObject({ status: 200, body: { id } });
  }
  const kept = await many(
    world.db,
    `select d.credentials, (select count(*)::int from notice_recipients r where r.destination_id = d.id) as recipients
     from notice_destinations d where d.org_id = :org_id`,
    { org_id: tenant.org_id },
  );
  expect(kept).toEqual(Array(2).fill({ credentials: {}, recipients: 0 }));
  await makeShort(world, 100, {}, tenant);
  const [queued] = await many(
    world.db,
    `select count(*)::int as count from notices where org_id = :org_id`,
    { org_id: tenant.org_id },
  );
  expect(queued).toEqual({ count: 0 });
});

const base64 = (bytes: number) => Buffer.alloc(bytes, 7).toString('base64');

test.each([
  ['24 bytes', base64(24), 201],
  ['64 bytes', base64(64), 201],
  ['25 bytes', base64(25), 201],
  ['23 bytes', base64(23), 422],
  ['65 bytes', base64(65), 422],
  ['25 bytes without their padding', base64(25).replaceAll('=', ''), 422],
  ['a length that no bytes have', `${base64(24)}A`, 422],
  ['padding that nothing needs', `${base64(24)}==`, 422],
  ['bits that no byte takes', `${base64(25).slice(0, -3)}/==`, 422],
])('a secret of %s is answered as it should be', async (_, text, status) => {
  const { owner_key: key } = await makeTenant(world.db);
  const body = { name: 'N', channel: 'webhook', url: `${world.receiver_url}/hooks/secret` };
  const answer = await world.call('post', '/v1/notice-destinations', {
    ...{ key, body: { ...body, secret: `whsec_${text}` } },
  });
  expect(answer.status).toBe(status);
  if (status === 422) expect(answer.body.error.param).toBe('secret');
});
