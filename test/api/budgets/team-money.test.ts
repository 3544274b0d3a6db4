import { many } from '../../../domain/sql';
import { makeBudget } from '../../domain/budgets/making';
import { type Answer, refusal } from '../../support/api';
import { balance, credit, reserveBody, settleBody, TOKEN } from '../../support/ledger';
import {
  approve,
  makeShort,
  openTicketWorld,
  redeem,
  type Short,
  show,
  type TicketWorld,
} from '../../support/tickets';
import { asks, makeTeam, type Team } from './teams';

let world: TicketWorld;

beforeAll(async () => {
  world = await openTicketWorld();
});

afterAll(() => world.close());

/** The organization has 1,000 tokens, the team 500, and the asker a ticket for 1,100. */
async function makeRichTeam(): Promise<Team & { short: Short; own_wallet: string }> {
  const team = await makeTeam(world);
  const { db } = world;
  const short = await makeShort(world, 1_100, asks(team), team);
  const { body } = await world.call('get', '/v1/wallets?per_page=200', { key: team.billing_key });
  const { wallet_id: own_wallet } = body.wallets.find(
    ({ owner_user_id }: { owner_user_id: string | null }) => owner_user_id === team.asker.user_id,
  );
  await credit(db, team.org_id, team.wallet_id, 1_000n * TOKEN);
  await credit(db, team.org_id, team.team_wallet, 500n * TOKEN);
  return { ...team, short, own_wallet };
}

async function balancesOf({
  wallet_id,
  team_wallet,
  own_wallet,
}: Awaited<ReturnType<typeof makeRichTeam>>) {
  const found: bigint[] = [];
  for (const id of [wallet_id, team_wallet, own_wallet])
    found.push((await balance(world.db, id)).balance_nanos / TOKEN);
  return found;
}

test("a team's admin takes nothing of the organization's money, whatever they name", async () => {
  const team = await makeRichTeam();
  const { short, lead } = team;
  const before = await balancesOf(team);
  for (const body of [
    { from_wallet_id: team.wallet_id },
    { from_wallet_id: team.wallet_id, amount: 0.0009 },
    { from_wallet_id: team.wallet_id, wallet_id: team.team_wallet, amount: 0.001 },
    { from_wallet_id: team.own_wallet },
    { from_wallet_id: 'wal_unknown' },
  ])
    expect(refusal(await approve(world.call, short, body, lead.key))).toMatchObject({
      ...{ status: 403, code: 'permission_denied' },
    });
  expect(await balancesOf(team)).toEqual(before);
  expect((await show(world.call, short)).status).toBe('open');
});

test("a team's admin moves no more than what is missing, except from the team's wallet to the asker's", async () => {
  const team = await makeRichTeam();
  const { short, lead } = team;
  const wrong = async (body: object): Promise<Answer> => approve(world.call, short, body, lead.key);
  // 100 are missing in the organization's wallet: 101 would be a gift to it.
  expect(refusal(await wrong({ wallet_id: team.wallet_id, amount: 0.000101 }))).toMatchObject({
    ...{ status: 422, param: 'amount' },
  });
  expect(await balancesOf(team)).toEqual([1_000n, 500n, 0n]);
  const exact = await wrong({
    wallet_id: team.wallet_id,
    amount: 0.0001,
    from_wallet_id: team.team_wallet,
  });
  expect([exact.status, exact.body.credited_amount]).toEqual([200, 0.0001]);
  expect(await balancesOf(team)).toEqual([0n, 400n, 0n]);

  const own = await makeShort(world, 450, asks(team), team);
  await credit(world.db, team.org_id, team.team_wallet, 600n * TOKEN);
  const given = await approve(
    world.call,
    own,
    { wallet_id: team.own_wallet, amount: 0.0005 },
    lead.key,
  );
  expect([given.status, given.body.credited_amount]).toEqual([200, 0.0005]);
});

test("a team's admin lets the organization's wallet pay for no call that the team's covers", async () => {
  const team = await makeRichTeam();
  const { db, call } = world;
  const { org_id, wallet_id, lead, asker, short } = team;
  const own = { owner_type: 'user', owner_id: asker.user_id, on_exceed: 'ticket' } as const;
  await makeBudget(db, team, 10, own);
  const beyond = await makeShort(world, 70, asks(team), team);
  expect(refusal(await approve(call, beyond, { wallet_id }, lead.key))).toMatchObject({
    ...{ status: 403, code: 'permission_denied' },
  });
  expect(await balancesOf(team)).toEqual([1_000n, 500n, 0n]);
  expect((await approve(call, beyond, {}, lead.key)).body.credited_amount).toBe(0);
  expect(await balancesOf(team)).toEqual([1_000n, 430n, 0n]);

  // Nothing is missing any more: the call would be the team's, although the organization has more.
  await credit(db, org_id, wallet_id, 1_000n * TOKEN);
  await credit(db, org_id, team.team_wallet, 770n * TOKEN);
  expect((await approve(call, short, { wallet_id }, lead.key)).status).toBe(403);
  expect((await approve(call, short, {}, lead.key)).status).toBe(200);
  expect(await balancesOf(team)).toEqual([2_000n, 100n, 0n]);

  // Beyond what the team has, what raises a budget alone takes what any call takes.
  const large = await makeShort(world, 200, asks(team), team);
  expect((await approve(call, large, {}, lead.key)).status).toBe(200);
  expect(await balancesOf(team)).toEqual([1_800n, 100n, 0n]);
});

test("several verdicts of a team's admin draw on the team's wallet alone", async () => {
  const team = await makeRichTeam();
  const { short, lead } = team;
  const body = { verdict: 'approve', ticket_ids: [short.ticket_id] };
  const { results } = (
    await world.call('post', '/v1/cost-tickets/verdicts', { key: lead.key, body })
  ).body;
  expect(results).toMatchObject([{ ticket: { status: 'approved', credited_amount: 0.0001 } }]);
  expect(await balancesOf(team)).toEqual([0n, 400n, 0n]);
});

test('a team takes back what is left of its gifts, and never what a person paid in or an approval moved', async () => {
  const team = await makeRichTeam();
  const { db, call, machine } = world;
  const { org_id, team_id, own_wallet, asker, lead } = team;
  const path = `/v1/organizations/${org_id}/teams/${team_id}`;
  const move = (verb: string, tokens: number) =>
    call('post', `${path}/${verb}`, {
      key: lead.key,
      body: { user_id: asker.user_id, amount: tokens / 1e6 },
    });
  const tooMuch = { status: 409, code: 'insufficient_balance', param: 'amount' };
  /** In tokens, as the team's admin is told of the asker; a sum of exact decimals. */
  const left = async () => {
    const list = await call('get', `${path}/members?with_given_left=true`, { key: lead.key });
    const found = list.body.members.find(
      ({ user_id }: { user_id: string }) => user_id === asker.user_id,
    );
    return Math.round(found.given_left * 1e6);
  };
  await makeBudget(db, team, 0, { on_exceed: 'ticket', thresholds: [] });
  // Moved for a call, and spent by it: 50 of 70 come back to the person's wallet.
  const short = await makeShort(world, 70, asks(team), team);
  expect((await approve(call, short, { wallet_id: own_wallet }, lead.key)).status).toBe(403);
  await approve(call, short, { wallet_id: own_wallet, from_wallet_id: team.team_wallet });
  const paid = await redeem(call, machine, short);
  const settle = settleBody(org_id, paid.body.reservation_id, 20);
  await call('post', '/v1/gateway/wallets/settle', { key: machine, body: settle });
  expect(await balance(db, own_wallet)).toMatchObject({ balance_nanos: 50n * TOKEN });
  expect(refusal(await move('reclaim', 1))).toMatchObject(tooMuch);
  expect(await left()).toBe(0);

  // What the person has beside 40 given: 50 from before and 100 of their own.
  await credit(db, org_id, own_wallet, 100n * TOKEN);
  await move('allocate', 40);
  await many(db, 'update budgets set archived_at = now() where org_id = :org_id', { org_id });
  const spend = async (tokens: number, held: number) => {
    const reserve = { ...reserveBody(org_id, held), ...asks(team) };
    const { body } = await call('post', '/v1/gateway/wallets/reserve', {
      key: machine,
      body: reserve,
    });
    expect(body.wallet_id).toBe(own_wallet);
    if (tokens === 0) return;
    const told = settleBody(org_id, body.reservation_id, tokens);
    await call('post', '/v1/gateway/wallets/settle', { key: machine, body: told });
  };
  await spend(10, 30);
  expect(await left()).toBe(30);
  const refused = await move('reclaim', 31);
  expect(refusal(refused)).toMatchObject(tooMuch);
  expect(refused.body.error.given_left).toBe(0.00003);
  expect(refused.body.error.message).toContain('Only 0.00003 USD is left');
  expect((await move('reclaim', 5)).status).toBe(200);
  expect(refusal(await move('reclaim', 26))).toMatchObject(tooMuch);
  // Spent beyond the gifts, and given again: what is left is the new gift.
  await spend(60, 60);
  expect(refusal(await move('reclaim', 1))).toMatchObject(tooMuch);
  await move('allocate', 8);
  await spend(0, 3);
  expect(await left()).toBe(5);
  expect(refusal(await move('reclaim', 6))).toMatchObject(tooMuch);
  expect((await move('reclaim', 5)).status).toBe(200);
  expect(await left()).toBe(0);
});

test("what is left of a team's gifts is told to its admins and who bills, and to nobody unasked", async () => {
  const team = await makeRichTeam();
  const { call } = world;
  const { org_id, team_id, asker, lead } = team;
  const path = `/v1/organizations/${org_id}/teams/${team_id}`;
  const body = { user_id: asker.user_id, amount: 0.0004 };
  expect((await call('post', `${path}/allocate`, { key: lead.key, body })).status).toBe(200);
  const told = async (key: string, query = '?with_given_left=true') => {
    const answer = await call('get', `${path}/members${query}`, { key });
    if (answer.status !== 200) return refusal(answer);
    const of = (who: string) =>
      answer.body.members.find(({ user_id }: { user_id: string }) => user_id === who).given_left;
    return [of(asker.user_id), of(lead.user_id)];
  };
  expect(await told(lead.key)).toEqual([0.0004, 0]);
  expect(await told(team.billing_key)).toEqual([0.0004, 0]);
  expect(await told(lead.key, '')).toEqual([null, null]);
  expect(await told(asker.key, '?with_given_left=false')).toEqual([null, null]);
  expect(await told(asker.key)).toMatchObject({ status: 403, code: 'permission_denied' });
  // An admin of another team is a member here.
  const other = await makeTeam(world);
  const elsewhere = `/v1/organizations/${other.org_id}/teams/${other.team_id}/members?with_given_left=true`;
  expect((await call('get', elsewhere, { key: lead.key })).status).toBe(404);
});

/** A team of the world, as its admin moves money to and from one person. */
function movesOf({ org_id, team_id, lead }: Team, user_id: string) {
  const path = `/v1/organizations/${org_id}/teams/${team_id}`;
  return (verb: 'allocate' | 'reclaim', tokens: number) =>
    world.call('post', `${path}/${verb}`, {
      key: lead.key,
      body: { user_id, amount: tokens / 1e6 },
    });
}

test('a gift that paid a debt is not taken back from what the person pays in', async () => {
  const team = await makeRichTeam();
  const { db } = world;
  const move = movesOf(team, team.asker.user_id);
  await credit(db, team.org_id, team.own_wallet, -300n * TOKEN);
  expect((await move('allocate', 300)).status).toBe(200);
  await credit(db, team.org_id, team.own_wallet, 300n * TOKEN);
  expect(refusal(await move('reclaim', 1))).toMatchObject({ status: 409, param: 'amount' });
  expect((await move('allocate', 20)).status).toBe(200);
  expect(refusal(await move('reclaim', 21))).toMatchObject({ status: 409, param: 'amount' });
  expect((await move('reclaim', 20)).status).toBe(200);
});

test('what another team gives and takes back leaves a gift whole', async () => {
  const team = await makeRichTeam();
  const { db, call } = world;
  const { org_id, asker, billing_key, lead } = team;
  const path = `/v1/organizations/${org_id}/teams`;
  const key = team.owner_key;
  const { body: other } = await call('post', path, { key, body: { name: 'Other' } });
  for (const body of [{ user_id: asker.user_id }, { user_id: lead.user_id, role: 'admin' }])
    await call('post', `${path}/${other.id}/members`, { key, body });
  const funded = { key: billing_key, body: { team_id: other.id, amount: 0.0004 } };
  expect((await call('post', '/v1/wallets/allocate', funded)).status).toBe(200);
  const move = movesOf(team, asker.user_id);
  const moveOther = movesOf({ ...team, team_id: other.id }, asker.user_id);
  const tooMuch = { status: 409, param: 'amount' };
  expect((await move('allocate', 50)).status).toBe(200);
  expect((await moveOther('allocate', 60)).status).toBe(200);
  expect(refusal(await moveOther('reclaim', 61))).toMatchObject(tooMuch);
  expect((await moveOther('reclaim', 60)).status).toBe(200);
  expect(refusal(await move('reclaim', 51))).toMatchObject(tooMuch);
  expect((await move('reclaim', 50)).status).toBe(200);
  expect((await balance(db, team.own_wallet)).balance_nanos).toBe(0n);
});

test('a long ledger is counted once, in short steps', async () => {
  const team = await makeRichTeam();
  const { db } = world;
  const { own_wallet } = team;
  const move = movesOf(team, team.asker.user_id);
  expect((await move('allocate', 100)).status).toBe(200);
  await many(
    db,
    `insert into wallet_transactions (id, wallet_id, org_id, seq, type, amount_nanos, balance_after_nanos, created_at)
     select 'txn_' || md5(n::text), w.id, w.org_id, w.seq + n, 'credit', 1, w.balance_nanos + n, clock_timestamp()
     from wallets w cross join generate_series(1, 12000) as n where w.id = :own_wallet`,
    { own_wallet },
  );
  await many(
    db,
    'update wallets set seq = seq + 12000, balance_nanos = balance_nanos + 12000 where id = :own_wallet',
    { own_wallet },
  );
  expect(refusal(await move('reclaim', 101))).toMatchObject({ status: 409, param: 'amount' });
  const counted = await many(
    db,
    `select f.folded_seq = w.seq as is_whole from gift_folds f join wallets w on w.id = f.wallet_id where w.id = :own_wallet`,
    { own_wallet },
  );
  expect(counted).toEqual([{ is_whole: true }]);
  expect((await move('reclaim', 100)).status).toBe(200);
});
