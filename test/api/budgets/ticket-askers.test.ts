import { AppError } from '../../../domain/errors';
import { many } from '../../../domain/sql';
import { makeBudget } from '../../domain/budgets/making';
import { refusal, serve } from '../../support/api';
import { credit, eventsOf, TOKEN } from '../../support/ledger';
import { approve, makeShort, openTicketWorld, type TicketWorld } from '../../support/tickets';
import { asks, makeTeam } from './teams';

let world: TicketWorld;

beforeAll(async () => {
  world = await openTicketWorld();
});

afterAll(() => world.close());

test('an asker sees their own tickets and no others; nobody else sees them without a right', async () => {
  const team = await makeTeam(world);
  const { ticket_id } = await makeShort(world, 10, asks(team), team);
  const { ticket_id: other } = await makeShort(world, 10, {}, team);
  const list = (key: string, query: string) =>
    world.call('get', `/v1/cost-tickets${query}`, { key });
  const ids = ({ body }: { body: { tickets: { id: string }[] } }) =>
    body.tickets.map(({ id }) => id);
  expect(ids(await list(team.asker.key, '?mine=true'))).toEqual([ticket_id]);
  expect((await list(team.asker.key, '')).status).toBe(403);
  expect(ids(await list(team.lead.key, ''))).toEqual([ticket_id]);
  expect(ids(await list(team.lead.key, '?mine=true'))).toEqual([]);
  expect(ids(await list(team.billing_key, ''))).toEqual([other, ticket_id]);
  expect(refusal(await list(team.billing_key, '?mine=true'))).toMatchObject({
    status: 422,
    param: 'mine',
  });
  const show = (key: string, id: string) => world.call('get', `/v1/cost-tickets/${id}`, { key });
  expect((await show(team.asker.key, ticket_id)).status).toBe(200);
  expect((await show(team.asker.key, other)).status).toBe(403);
  expect((await show(team.member_key, ticket_id)).status).toBe(403);
});

test('filters leave what they name', async () => {
  const team = await makeTeam(world);
  const { ticket_id } = await makeShort(
    world,
    10,
    { ...asks(team), agent_id: team.agent_id },
    team,
  );
  await makeShort(world, 10, {}, team);
  const found = async (query: string) =>
    (
      await world.call('get', `/v1/cost-tickets?${query}`, { key: team.billing_key })
    ).body.tickets.map(({ id }: { id: string }) => id);
  const now = encodeURIComponent(new Date(Date.now() + 60_000).toISOString());
  for (const query of [
    `user_id=${team.asker.user_id}`,
    `team_id=${team.team_id}`,
    `agent_id=${team.agent_id}&model=gpt-4o-mini&cause=balance&status=open&to=${now}`,
  ])
    expect(await found(query)).toEqual([ticket_id]);
  expect(await found('model=other')).toEqual([]);
  expect(await found('cause=budget')).toEqual([]);
  expect(await found(`from=${now}`)).toEqual([]);
});

test("a team's admin approves by a transfer from the team's wallet, 409 when that is short", async () => {
  const team = await makeTeam(world);
  const { db, call } = world;
  const short = await makeShort(world, 100, asks(team), team);
  const poor = await approve(call, short, {}, team.lead.key);
  expect(refusal(poor)).toMatchObject({ status: 409, code: 'insufficient_balance' });
  await credit(db, team.org_id, team.team_wallet, 60n * TOKEN);
  const [own] = await many<{ id: string }>(
    db,
    `select id from wallets where org_id = :org_id and owner_user_id = :user_id`,
    { org_id: team.org_id, user_id: team.asker.user_id },
  );
  await credit(db, team.org_id, own?.id ?? '', 50n * TOKEN);
  const { status, body } = await approve(call, short, {}, team.lead.key);
  expect([status, body.status, body.credited_amount]).toEqual([200, 'approved', 0.00005]);
  const { transactions } = (
    await call('get', `/v1/wallets/${team.team_wallet}/transactions`, { key: team.billing_key })
  ).body;
  expect(transactions[0]).toMatchObject({
    type: 'allocation_out',
    amount: -0.00005,
    approval: { cost_ticket_id: short.ticket_id, decided_by: team.lead.user_id },
  });
});

test("a team's admin decides on no call of another team, and raises neither the team's budget nor their own", async () => {
  const team = await makeTeam(world);
  const { db, call } = world;
  await credit(db, team.org_id, team.wallet_id, 10_000n * TOKEN);
  const outside = await makeShort(world, 20_000, {}, team);
  expect((await approve(call, outside, {}, team.lead.key)).status).toBe(403);
  const ticket = { on_exceed: 'ticket' } as const;
  const budget = await makeBudget(db, team, 10, {
    ...ticket,
    owner_type: 'team',
    owner_id: team.team_id,
  });
  const short = await makeShort(world, 100, asks(team), team);
  const refused = await approve(call, short, {}, team.lead.key);
  expect(refusal(refused)).toMatchObject({ status: 403, code: 'permission_denied' });
  expect(
    (await call('get', `/v1/budgets/${budget.id}`, { key: team.billing_key })).body.raised,
  ).toBe(0);
  // Nor does it stand among those that they may approve, in pages and by cursor.
  const listed = async (key: string, query: string) => {
    const path = `/v1/cost-tickets?status=open&${query}`;
    const { body } = await call('get', path, { key });
    const ids = body.tickets.map(({ id }: { id: string }) => id);
    return [ids.includes(short.ticket_id), body.total ?? ids.length];
  };
  for (const way of ['page=1', 'cursor=first']) {
    expect(await listed(team.lead.key, way)).toEqual([true, 1]);
    expect(await listed(team.lead.key, `approvable=true&${way}`)).toEqual([false, 0]);
    expect(await listed(team.billing_key, `approvable=true&${way}`)).toEqual([true, 2]);
  }
  expect((await approve(call, short)).status).toBe(200);
  // Nor does anybody approve what is closed, whoever asks.
  const closed = async (key: string, more = '') =>
    (await call('get', `/v1/cost-tickets?approvable=true${more}`, { key })).body.tickets.map(
      ({ id }: { id: string }) => id,
    );
  expect(await closed(team.lead.key)).not.toContain(short.ticket_id);
  expect(await closed(team.billing_key)).not.toContain(short.ticket_id);
  expect(await closed(team.billing_key, '&status=approved')).toEqual([]);
  await many(db, 'update budgets set archived_at = now() where id = :id', { id: budget.id });

  for (const [person, status] of [
    [team.asker, 200],
    [team.lead, 403],
  ] as const) {
    const owner = { owner_type: 'user', owner_id: person.user_id } as const;
    await makeBudget(db, team, 10, { ...ticket, ...owner });
    const its = await makeShort(
      world,
      100,
      { team_id: team.team_id, user_id: person.user_id },
      team,
    );
    expect((await approve(call, its, {}, team.lead.key)).status).toBe(status);
  }
});

test('several verdicts at once have a result each', async () => {
  const team = await makeTeam(world);
  const [one, two] = [await makeShort(world, 10, {}, team), await makeShort(world, 20, {}, team)];
  const ticket_ids = [one.ticket_id, 'ticket_unknown', two.ticket_id, one.ticket_id];
  const body = { verdict: 'approve', ticket_ids, note: 'June' };
  const answer = await world.call('post', '/v1/cost-tickets/verdicts', {
    key: team.billing_key,
    body,
  });
  expect(answer.status).toBe(200);
  expect(answer.body.results).toMatchObject([
    { ticket_id: one.ticket_id, ticket: { status: 'approved', note: 'June' }, error: null },
    { ticket_id: 'ticket_unknown', ticket: null, error: { code: 'not_found', status: 404 } },
    { ticket_id: two.ticket_id, ticket: { status: 'approved' }, error: null },
  ]);
  for (const wrong of [[], Array.from({ length: 51 }, String)])
    expect(
      refusal(
        await world.call('post', '/v1/cost-tickets/verdicts', {
          key: team.billing_key,
          body: { verdict: 'deny', ticket_ids: wrong },
        }),
      ),
    ).toMatchObject({ status: 422, param: 'ticket_ids' });
});

test('while Temporal is away verdicts together wait once, and no 503 is kept as their answer', async () => {
  const team = await makeTeam(world);
  const shorts = [await makeShort(world, 10, {}, team), await makeShort(world, 20, {}, team)];
  const ticket_ids = shorts.map(({ ticket_id }) => ticket_id);
  const asked: string[] = [];
  // Each ask for a verdict passes, or finds Temporal away.
  const answers: boolean[] = [];
  const temporal: TicketWorld['temporal'] = {
    ...world.temporal,
    async update(start, name, ...rest) {
      asked.push(start.workflow_id);
      if (answers.shift()) return world.temporal.update(start, name, ...rest);
      throw new AppError('unavailable', 'Temporal did not answer in time.', { retry_after: 2 });
    },
  };
  const api = await serve({ db: world.db, temporal });
  const decide = () =>
    api.call('post', '/v1/cost-tickets/verdicts', {
      key: team.billing_key,
      body: { verdict: 'approve', ticket_ids },
      headers: { 'idempotency-key': `together ${team.org_id}` },
    });
  const none = await decide();
  expect(refusal(none)).toMatchObject({ status: 503, code: 'unavailable' });
  expect(none.headers['retry-after']).toBe('2');
  expect(asked).toEqual(ticket_ids.slice(0, 1));

  answers.push(true, false);
  const half = await decide();
  expect(half.status).toBe(200);
  expect(half.body.results).toMatchObject([
    { ticket: { status: 'approved' }, error: null },
    { ticket: null, error: { code: 'unavailable', status: 503 } },
  ]);

  answers.push(true, true);
  const all = await decide();
  expect(all.body.results).toMatchObject(
    ticket_ids.map((ticket_id) => ({ ticket_id, ticket: { status: 'approved' }, error: null })),
  );
  expect(all.headers['idempotent-replayed']).toBeUndefined();
  expect((await decide()).headers['idempotent-replayed']).toBe('true');
  expect(asked).toHaveLength(5);
  await api.close();
});

test('each event of a ticket names user, team, key, agent, proof and label', async () => {
  const team = await makeTeam(world);
  const said = { trace_label: 'mine', identity_proof_method: 'gateway_key' };
  const short = await makeShort(
    world,
    10,
    { ...asks(team), agent_id: team.agent_id, ...said },
    team,
  );
  await approve(world.call, short);
  for (const type of ['cost_ticket.created', 'cost_ticket.resolved']) {
    const [event] = await eventsOf(world.db, team.org_id, type);
    expect(event).toMatchObject({
      user_id: team.asker.user_id,
      team_id: team.team_id,
      key_id: null,
      agent_id: team.agent_id,
      identity_proof_method: 'gateway_key',
    });
  }
});

test('an approval may move money from a chosen wallet, of the organization or the team alone', async () => {
  const team = await makeTeam(world);
  const { db, call } = world;
  await credit(db, team.org_id, team.wallet_id, 80n * TOKEN);
  const short = await makeShort(world, 100, asks(team), team);
  const strange = await approve(call, short, { from_wallet_id: 'wal_unknown' });
  expect(refusal(strange)).toMatchObject({ status: 422, param: 'from_wallet_id' });
  const all = await approve(call, short, { from_wallet_id: team.wallet_id });
  expect(refusal(all)).toMatchObject({ status: 409, code: 'insufficient_balance' });
  await credit(db, team.org_id, team.team_wallet, 30n * TOKEN);
  const moved = await approve(call, short, {
    from_wallet_id: team.wallet_id,
    wallet_id: team.team_wallet,
  });
  expect([moved.status, moved.body.credited_amount]).toEqual([200, 0.00007]);
});

test("approvable=true beside mine=true leaves those of one's own that one may approve", async () => {
  const team = await makeTeam(world);
  const { call } = world;
  const of = (user_id: string) => ({ team_id: team.team_id, user_id });
  const asked = await makeShort(world, 100, of(team.asker.user_id), team);
  const led = await makeShort(world, 100, of(team.lead.user_id), team);
  const own = async (key: string, more: string) => {
    const { status, body } = await call('get', `/v1/cost-tickets?mine=true${more}`, { key });
    return [status, ...body.tickets.map(({ id }: { id: string }) => id)];
  };
  expect(await own(team.asker.key, '')).toEqual([200, asked.ticket_id]);
  expect(await own(team.asker.key, '&approvable=true')).toEqual([200]);
  expect(await own(team.asker.key, '&approvable=false')).toEqual([200, asked.ticket_id]);
  expect(await own(team.lead.key, '&approvable=true')).toEqual([200, led.ticket_id]);
});
