import { makeBudget } from '../../domain/budgets/making';
import { refusal } from '../../support/api';
import { makeKeyId } from '../../support/keys';
import { makeShort, openTicketWorld, type TicketWorld } from '../../support/tickets';
import { asks, makeTeam } from './teams';

let world: TicketWorld;

beforeAll(async () => {
  world = await openTicketWorld();
});

afterAll(() => world.close());

test('budgets are found by the words of their owner, in parts and in both orders', async () => {
  const team = await makeTeam(world);
  const { db, call } = world;
  const { org_id, asker, billing_key: key } = team;
  await db('users').where({ id: asker.user_id }).update({ name: 'Ada Lovelace', email: null });
  const key_id = await makeKeyId(db, org_id, { token_type: 'gateway', name: 'Ada night batch' });
  const owners = [
    ['organization', org_id],
    ['user', asker.user_id],
    ['team', team.team_id],
    ['key', key_id],
    ['user', team.lead.user_id],
  ] as const;
  const made: string[] = [];
  for (const [owner_type, owner_id] of owners)
    made.push((await makeBudget(db, team, 10, { owner_type, owner_id })).id);
  const list = (query: string, as = key) => call('get', `/v1/budgets?${query}`, { key: as });
  const ids = async (query: string, as = key) =>
    (await list(query, as)).body.budgets.map(({ id }: { id: string }) => id);
  expect(await ids('q=ada')).toEqual([made[3], made[1]]);
  expect(await ids('q=ada+love&cursor=first')).toEqual([made[1]]);
  expect(await ids('q=ada&owner_type=key')).toEqual([made[3]]);
  expect(await ids('q=nobody')).toEqual([]);
  // Nothing more than what counts their own calls, whatever they search for.
  expect(new Set(await ids('', asker.key))).toEqual(new Set(made.slice(0, 3)));
  expect(await ids('q=ada', asker.key)).toEqual([made[1]]);
  for (const [sort, order] of [
    ['created_at', made],
    ['-created_at', [...made].reverse()],
  ] as const) {
    const seen: string[] = [];
    for (let cursor: string | null = 'first'; cursor !== null; ) {
      const { body } = await list(`per_page=2&sort=${sort}&cursor=${cursor}`);
      expect(body).not.toHaveProperty('total');
      seen.push(...body.budgets.map(({ id }: { id: string }) => id));
      cursor = body.next;
    }
    expect(seen).toEqual(order);
    expect(await ids(`sort=${sort}`)).toEqual(order);
  }
  expect(refusal(await list('q=-'))).toMatchObject({ status: 422, param: 'q' });
  expect(refusal(await list('sort=limit'))).toMatchObject({ status: 422, param: 'sort' });
});

test('tickets are found by the words of who asks', async () => {
  const team = await makeTeam(world);
  const { db, call } = world;
  await db('users').where({ id: team.asker.user_id }).update({ name: 'Grace Hopper', email: null });
  const { ticket_id: own } = await makeShort(world, 10, asks(team), team);
  const { ticket_id: agents } = await makeShort(world, 10, { agent_id: team.agent_id }, team);
  await makeShort(world, 10, {}, team);
  const { name } = await db('agents').where({ id: team.agent_id }).first();
  const ids = async (query: string, key = team.billing_key) =>
    (await call('get', `/v1/cost-tickets?${query}`, { key })).body.tickets.map(
      ({ id }: { id: string }) => id,
    );
  for (const more of ['', '&cursor=first', '&status=open']) {
    expect(await ids(`q=grace${more}`)).toEqual([own]);
    expect(await ids(`q=${encodeURIComponent(name)}${more}`)).toEqual([agents]);
    expect(await ids(`q=nobody${more}`)).toEqual([]);
  }
  expect(await ids('q=grace', team.lead.key)).toEqual([own]);
  expect(await ids('q=hopper&mine=true', team.asker.key)).toEqual([own]);
  expect(await ids('q=hopper&mine=true', team.lead.key)).toEqual([]);
});
