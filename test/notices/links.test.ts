import { randomUUID } from 'node:crypto';
import pino from 'pino';
import { many } from '../../domain/sql';
import { makePerson, makeTenant, serve } from '../support/api';
import { makeShort, redeem } from '../support/tickets';
import { makeDestination, type NoticeWorld, openNoticeWorld, present } from './world';

let world: NoticeWorld;
beforeAll(async () => {
  world = await openNoticeWorld();
});
afterAll(() => world.close());

/** A ticket of a tenant whose own wallet has money, and the links that Slack got. */
async function makeLinked() {
  const tenant = await makeTenant(world.db);
  const path = `/slack/${randomUUID()}`;
  await makeDestination(world, tenant.owner_key, { channel: 'slack', path });
  const person = await makePerson(world, tenant, 'billing_admin');
  const short = await makeShort(world, 100, {}, tenant);
  const { body } = await present(() => world.receiver.arrivals.find((one) => one.path === path));
  const secretOf = (n: number): string => body.blocks[2].elements[n].url.split('#link=')[1];
  return {
    ...short,
    person_id: person.user_id,
    person_key: person.key,
    approve: secretOf(0),
    deny: secretOf(1),
  };
}

async function nonce(): Promise<string> {
  const answer = await world.call('get', '/approvals');
  return /name="page-nonce" content="([^"]+)"/.exec(answer.text)?.[1] as string;
}

async function session({ person_key }: { person_key: string }): Promise<string> {
  const answer = await world.call('post', '/v1/sessions', { body: { access_key: person_key } });
  expect(answer.status).toBe(201);
  return answer.body.key;
}

const look = (link: string, key?: string) =>
  world.call('post', '/v1/ticket-links/look', { key, body: { link } });
const use = async (link: string, key?: string, more: object = {}) =>
  world.call('post', '/v1/ticket-links/decide', {
    key,
    body: { link, nonce: await nonce(), ...more },
  });

test('a ticket that is decided before its message arrives is told of as it stands, with no link that decides', async () => {
  const tenant = await makeTenant(world.db);
  const path = `/slack/${randomUUID()}`;
  world.receiver.addFault({ path, answer: 'error', status: 503, times: 0 });
  const kinds = ['ticket_created'];
  await makeDestination(world, tenant.owner_key, { channel: 'slack', path, kinds });
  const { ticket_id } = await makeShort(world, 100, {}, tenant);
  const deny = `/v1/cost-tickets/${ticket_id}/deny`;
  expect((await world.call('post', deny, { key: tenant.owner_key, body: {} })).status).toBe(200);
  world.receiver.clearFaults();
  const { body } = await present(() => world.receiver.arrivals.find((one) => one.path === path));
  expect(body.text).toBe('A cost ticket was denied');
  const { elements } = body.blocks.at(-1);
  expect(elements.map((one: { text: { text: string } }) => one.text.text)).toEqual([
    'Open the ticket',
  ]);
  expect(JSON.stringify(body)).not.toContain('#link=');
});

test("the page of a ticket is the console's, where there is one; links decide at the API", async () => {
  const tenant = await makeTenant(world.db);
  const paths = { slack: `/slack/${randomUUID()}`, webhook: `/hooks/${randomUUID()}` } as const;
  world.ways.console_url = 'https://console.example';
  for (const channel of ['slack', 'webhook'] as const)
    await makeDestination(world, tenant.owner_key, { channel, path: paths[channel] });
  const { ticket_id } = await makeShort(world, 100, {}, tenant);
  const bodyAt = async (path: string) =>
    (await present(() => world.receiver.arrivals.find((one) => one.path === path))).body;
  const [slack, hook] = [await bodyAt(paths.slack), await bodyAt(paths.webhook)];
  world.ways.console_url = undefined;
  const [approve, , open] = slack.blocks[2].elements;
  expect(open.url).toBe(`https://console.example/tickets/${ticket_id}`);
  expect(approve.url).toMatch(/^https:\/\/svc\.example\/approvals#link=/);
  expect(hook.data.notices[0].url).toBe(open.url);
});

test('a message whose links are over has none, though its ticket is open again', async () => {
  const tenant = await makeTenant(world.db);
  const path = `/slack/${randomUUID()}`;
  const kinds = ['ticket_created'];
  world.receiver.addFault({ path, answer: 'error', status: 503, times: 0 });
  await makeDestination(world, tenant.owner_key, { channel: 'slack', path, kinds });
  const { ticket_id } = await makeShort(world, 100, {}, tenant);
  // The ticket was approved, and has been opened again since its call was canceled.
  await present(async () => {
    const ended = await many(
      world.db,
      'update ticket_links set ended_at = clock_timestamp() where ticket_id = :ticket_id returning verdict',
      { ticket_id },
    );
    return ended.length === 2 || undefined;
  });
  // A try may have read its links just before: each try after the next to end reads them anew.
  const tries = async () => {
    const found = await world.call('get', '/v1/notice-messages', { key: tenant.owner_key });
    return found.body.messages[0].attempts as number;
  };
  const before = await tries();
  await present(async () => (await tries()) > before || undefined);
  world.receiver.clearFaults();
  const { body } = await present(() => world.receiver.arrivals.find((one) => one.path === path));
  expect(JSON.stringify(body)).not.toContain('#link=');
});

test('one confirmation by a session decides, once: another shows the first answer', async () => {
  const linked = await makeLinked();
  const key = await session(linked);
  expect(await look(linked.approve, key)).toMatchObject({
    status: 200,
    body: { verdict: 'approved', is_dead: false, ticket: { id: linked.ticket_id, status: 'open' } },
  });
  const denied = await use(linked.deny, key, { note: 'too dear' });
  expect(denied).toMatchObject({
    status: 200,
    body: { is_first: true, ticket: { status: 'denied', decided_by: linked.person_id } },
  });
  for (const link of [linked.deny, linked.approve])
    expect(await use(link, key)).toMatchObject({
      status: 200,
      body: { is_first: false, ticket: { status: 'denied', decided_by: linked.person_id } },
    });
  expect((await look(linked.approve, key)).body.is_dead).toBe(true);
  const answer = await redeem(world.call, world.machine, linked);
  expect(answer).toMatchObject({ status: 403, body: { error: { code: 'ticket_denied' } } });
  const rows = await many<{ used_by: string | null }>(
    world.db,
    'select used_by, ended_at from ticket_links where ticket_id = :id order by verdict',
    { id: linked.ticket_id },
  );
  expect(rows).toEqual([
    { used_by: null, ended_at: expect.any(Date) },
    { used_by: linked.person_id, ended_at: expect.any(Date) },
  ]);
  const log = await world.call('get', `/v1/audit-log?object_id=${linked.ticket_id}`, {
    key: linked.owner_key,
  });
  expect(log.body.audit_log).toMatchObject([
    {
      ...{ action: 'cost_ticket.denied', before: { status: 'open' } },
      actor: { type: 'user', id: linked.person_id },
      session_id: expect.stringMatching(/^key_/),
      after: { status: 'denied', note: 'too dear' },
    },
  ]);
  const told = await world.call('get', `/v1/notices?cost_ticket_id=${linked.ticket_id}`, {
    key: linked.owner_key,
  });
  const who = told.body.notices.map((one: Record<string, unknown>) => [one.kind, one.decided_by]);
  expect(who).toEqual([
    ['ticket_resolved', linked.person_id],
    ['ticket_created', null],
  ]);
});

test('two who confirm at once have one verdict', async () => {
  const linked = await makeLinked();
  const key = await session(linked);
  const answers = await Promise.all([use(linked.deny, key), use(linked.deny, key)]);
  expect(answers.map(({ status }) => status)).toEqual([200, 200]);
  expect(answers.filter(({ body }) => body.is_first)).toHaveLength(1);
});

test('of two people who confirm at once the link names the one whose verdict stands', async () => {
  for (let n = 0; n < 5; n++) {
    const linked = await makeLinked();
    const second = await makePerson(world, linked, 'billing_admin');
    const keys = [linked.person_key, second.key];
    const answers = await Promise.all(keys.map((key) => use(linked.deny, key)));
    expect(answers.map(({ status }) => status)).toEqual([200, 200]);
    const [decider] = new Set(answers.map(({ body }) => body.ticket.decided_by));
    const by = [linked.person_id, second.user_id].indexOf(decider);
    expect(answers.map(({ body }) => body.is_first)).toEqual([by === 0, by === 1]);
    const [row] = await many<{ used_by: string }>(
      world.db,
      `select used_by from ticket_links where ticket_id = :id and verdict = 'denied'`,
      { id: linked.ticket_id },
    );
    expect(row?.used_by).toBe(decider);
  }
});

test('whoever fetches the address, without a session, decides nothing and learns nothing', async () => {
  const linked = await makeLinked();
  for (const method of ['get', 'head']) {
    const answer = await world.call(method, '/approvals');
    expect(answer).toMatchObject({
      status: 200,
      headers: { 'referrer-policy': 'no-referrer', 'cache-control': 'no-store' },
    });
    expect(answer.text).not.toContain(linked.ticket_id);
    expect(answer.headers['set-cookie']).toBeUndefined();
  }
  expect((await look(linked.approve)).status).toBe(401);
  expect((await use(linked.approve)).status).toBe(401);
  const paths = ['/v1/ticket-links/look', '/v1/ticket-links/decide'];
  for (const path of paths) expect([404, 405]).toContain((await world.call('get', path)).status);
  const ticket = await world.call('get', `/v1/cost-tickets/${linked.ticket_id}`, {
    key: linked.owner_key,
  });
  expect(ticket.body.status).toBe('open');
});

test('a link that is forwarded is worth what the right of its bearer is', async () => {
  const linked = await makeLinked();
  const other = await makeTenant(world.db);
  for (const [key, status] of [
    [linked.member_key, 403],
    [other.owner_key, 404],
  ] as const) {
    expect((await look(linked.approve, key)).status).toBe(status);
    expect((await use(linked.approve, key)).status).toBe(status);
  }
  expect((await look(linked.approve, linked.owner_key)).body).toMatchObject({ is_dead: false });
});

test('a nonce of another API or of long ago, and a link that nobody made, are refused', async () => {
  const linked = await makeLinked();
  const key = linked.owner_key;
  for (const wrong of ['x', `${Date.now()}.a.b`, `${(await nonce()).replace(/^\d+/, '1')}`])
    expect(await use(linked.deny, key, { nonce: wrong })).toMatchObject({
      status: 422,
      body: { error: { param: 'nonce' } },
    });
  expect((await use('a'.repeat(43), key)).status).toBe(404);
  expect(await use('short', key)).toMatchObject({
    status: 422,
    body: { error: { param: 'link' } },
  });
});

test('a link dies with its ticket', async () => {
  const linked = await makeLinked();
  const deny = `/v1/cost-tickets/${linked.ticket_id}/deny`;
  expect((await world.call('post', deny, { key: linked.owner_key, body: {} })).status).toBe(200);
  expect((await look(linked.approve, linked.owner_key)).body).toMatchObject({ is_dead: true });
  expect((await use(linked.approve, linked.owner_key)).body).toMatchObject({
    is_first: false,
    ticket: { status: 'denied' },
  });
});

test('no link is in the log of the API', async () => {
  const lines: string[] = [];
  const log = pino({ level: 'trace' }, { write: (line) => void lines.push(line) });
  const api = await serve({ db: world.db, temporal: world.temporal, log });
  const linked = await makeLinked();
  await api.call('post', '/v1/ticket-links/look', {
    key: linked.owner_key,
    body: { link: linked.approve },
  });
  const body = { link: linked.deny, nonce: await nonce() };
  const done = await api.call('post', '/v1/ticket-links/decide', { key: linked.owner_key, body });
  expect(done.status).toBe(200);
  await api.close();
  const text = lines.join('');
  expect(text).toContain('/v1/ticket-links/decide');
  for (const secret of [linked.approve, linked.deny]) expect(text).not.toContain(secret);
});
