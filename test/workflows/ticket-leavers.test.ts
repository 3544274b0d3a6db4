import { makeTenant, refusal } from '../support/api';
import { makeKeyId } from '../support/keys';
import { balance } from '../support/ledger';
import {
  approve,
  makeShort,
  openTicketWorld,
  redeem,
  type Short,
  show,
  type TicketWorld,
  topUp,
} from '../support/tickets';
import { until } from '../support/until';

// Tickets of a person who leaves the team that they spend for.

let world: TicketWorld;

beforeAll(async () => {
  world = await openTicketWorld();
});

afterAll(() => world.close());

async function shortOfTeam(): Promise<Short> {
  const tenant = await makeTenant(world.db);
  const { member_id: user_id, team_id } = tenant;
  return makeShort(world, 10, { user_id, team_id }, tenant);
}

function leave({ org_id, team_id, member_id, owner_key: key }: Short) {
  const at = `/v1/organizations/${org_id}/teams/${team_id}/members/${member_id}`;
  return world.call('delete', at, { key });
}

function remove({ org_id, member_id, owner_key: key }: Short) {
  return world.call('delete', `/v1/organizations/${org_id}/members/${member_id}`, { key });
}

const outsider = { status: 403, code: 'not_team_member', param: 'team_id' };

test('a call that waits for money is refused as its person leaves the team, and what comes later stays', async () => {
  const short = await shortOfTeam();
  const waits = redeem(world.call, world.machine, short, { wait_ms: 30_000 });
  await until(async () => (await show(world.call, short)).waiting_calls === 1);
  expect((await leave(short)).status).toBe(200);
  expect(refusal(await waits)).toEqual(outsider);
  await topUp(world.call, short, 100);
  expect(refusal(await redeem(world.call, world.machine, short))).toEqual(outsider);
  expect(await balance(world.db, short.wallet_id)).toMatchObject({ reserved_nanos: 0n });
});

test('a ticket of a person who has left cannot be approved: nothing is credited', async () => {
  const short = await shortOfTeam();
  await leave(short);
  expect(refusal(await approve(world.call, short))).toMatchObject({
    status: 409,
    code: 'not_team_member',
  });
  expect(await balance(world.db, short.wallet_id)).toEqual({
    balance_nanos: 0n,
    reserved_nanos: 0n,
  });
});

test('an approved hold is not handed to a person who has left', async () => {
  const short = await shortOfTeam();
  expect((await approve(world.call, short)).status).toBe(200);
  await leave(short);
  const request_id = 'came back later';
  expect(refusal(await redeem(world.call, world.machine, { ...short, request_id }))).toEqual(
    outsider,
  );
});

test.each(['waits', 'was approved'] as const)(
  'a ticket that %s gives nothing to a person who has left the organization, who is told at once',
  async (kind) => {
    const tenant = await makeTenant(world.db);
    const short = await makeShort(world, 10, { user_id: tenant.member_id }, tenant);
    if (kind === 'was approved') await approve(world.call, short);
    const waits = kind === 'waits' && redeem(world.call, world.machine, short, { wait_ms: 30_000 });
    if (kind === 'waits')
      await until(async () => (await show(world.call, short)).waiting_calls === 1);
    expect((await remove(short)).status).toBe(200);
    const answer = await (waits || redeem(world.call, world.machine, short));
    expect(refusal(answer)).toEqual({ status: 422, code: 'invalid_field', param: 'user_id' });
  },
);

test("an approval's entries name their actor, and its credit the ticket, the person and the note", async () => {
  const tenant = await makeTenant(world.db);
  const short = await makeShort(world, 10, {}, tenant);
  expect((await approve(world.call, short, { note: 'for the demo' })).status).toBe(200);
  const [key] = await world
    .db('tokens')
    .where({ org_id: tenant.org_id })
    .whereRaw(`scopes = '{org:billing}'`);
  const { body } = await world.call('get', `/v1/wallets/${short.wallet_id}/transactions`, {
    key: short.billing_key,
  });
  expect(body.transactions).toMatchObject([
    { type: 'reservation', actor: key.id },
    {
      type: 'credit',
      actor: key.id,
      description: `approved cost ticket ${short.ticket_id} by ${key.id}: for the demo`,
    },
  ]);
});

test("leaving a team ends the keys for that person in that team, and the person's others live", async () => {
  const short = await shortOfTeam();
  const { org_id, member_id: user_id, team_id } = short;
  const [both, alone, team] = [
    await makeKeyId(world.db, org_id, { user_id, team_id }),
    await makeKeyId(world.db, org_id, { user_id }),
    await makeKeyId(world.db, org_id, { team_id }),
  ];
  const left = await leave(short);
  expect(left.body.revoked_keys).toMatchObject([{ id: both, status: 'revoked' }]);
  const living = await world
    .db('tokens')
    .whereIn('id', [both, alone, team])
    .whereNull('revoked_at');
  expect(living.map(({ id }) => id).sort()).toEqual([alone, team].sort());
});
