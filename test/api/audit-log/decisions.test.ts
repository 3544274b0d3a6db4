import { makePerson, makeTenant, type Person } from '../../support/api';
import { credit, reserveBody, TOKEN } from '../../support/ledger';
import {
  bodyHash,
  makeShort,
  openTicketWorld,
  type Short,
  type TicketWorld,
} from '../../support/tickets';
import { expectSides, loggedSince, newestId, type walked } from './routes';

// Verdicts go through a workflow: their rows name person, session and request all the same.

let world: TicketWorld;

beforeAll(async () => {
  world = await openTicketWorld();
});
afterAll(() => world.close());

async function sessionOf({ key }: Person): Promise<{ id: string; key: string }> {
  const { body } = await world.call('post', '/v1/sessions', { body: { access_key: key } });
  return body;
}

type Name = (typeof walked)['decisions.test.ts'][number];

const walks: Record<
  Name,
  { path: (short: Short) => string; body: (s: Short) => object; actions: string[] }
> = {
  'post /v1/cost-tickets/{id}/approve': {
    path: ({ ticket_id }) => `/v1/cost-tickets/${ticket_id}/approve`,
    body: () => ({ note: 'for June' }),
    actions: ['wallet.credited', 'cost_ticket.approved'],
  },
  'post /v1/cost-tickets/{id}/deny': {
    path: ({ ticket_id }) => `/v1/cost-tickets/${ticket_id}/deny`,
    body: () => ({ reason: 'too dear' }),
    actions: ['cost_ticket.denied'],
  },
  'post /v1/cost-tickets/verdicts': {
    path: () => '/v1/cost-tickets/verdicts',
    body: ({ ticket_id }) => ({ ticket_ids: [ticket_id], verdict: 'deny', note: 'no' }),
    actions: ['cost_ticket.denied'],
  },
};

test.each(Object.entries(walks))('%s', async (_, { path, body, actions }) => {
  const short = await makeShort(world, 100);
  const person = await makePerson(world, short, 'billing_admin');
  const { id: session_id, key } = await sessionOf(person);
  const newest = await newestId(world.db);
  const answer = await world.call('post', path(short), {
    ...{ key, body: body(short), headers: { 'x-request-id': 'label-8' } },
  });
  expect(answer.status).toBe(200);
  const rows = await loggedSince(world.db, newest);
  expect(rows.map(({ action }) => action).sort()).toEqual([...actions].sort());
  expectSides(rows);
  for (const row of rows)
    expect(row).toMatchObject({
      ...{ org_id: short.org_id, actor: person.user_id, actor_type: 'user' },
      ...{ session_id, request_id: 'label-8' },
    });
  const { object_id, before } = rows.at(-1) ?? {};
  expect([object_id, Object.entries(before ?? {}).filter(([, value]) => value !== null)]).toEqual([
    short.ticket_id,
    expect.arrayContaining([['status', 'open']]),
  ]);
  // What the verdict writes was not there before it.
  for (const name of ['note', 'credited_nanos', 'transaction_id', 'reservation_id'])
    expect([name, before?.[name] ?? null]).toEqual([name, null]);
});

test('what a rule approves and moves writes no row: it is part of a priced call', async () => {
  const tenant = await makeTenant(world.db);
  const { org_id, owner_key: key, member_id: user_id } = tenant;
  const rule = { name: 'Small calls', max_per_call: 1, max_per_day: 20 };
  expect((await world.call('post', '/v1/approval-rules', { key, body: rule })).status).toBe(201);
  await credit(world.db, org_id, tenant.wallet_id, 90n * TOKEN);
  const gift = { user_id, amount: 0.00003 };
  expect((await world.call('post', '/v1/wallets/allocate', { key, body: gift })).status).toBe(200);
  const newest = await newestId(world.db);
  const body = { ...reserveBody(org_id, 80), request_body_hash: bodyHash(), user_id };
  const answer = await world.call('post', '/v1/gateway/wallets/reserve', {
    key: world.machine,
    body,
  });
  expect(answer.status).toBe(200);
  const moved = await world.db('approval_entries').where({ org_id, decided_by: 'rule' });
  expect(moved).toHaveLength(2);
  expect(await loggedSince(world.db, newest)).toEqual([]);
});
