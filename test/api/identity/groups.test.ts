import { randomUUID } from 'node:crypto';
import { many } from '../../../domain/sql';
import { issueBy, makePerson, refusal } from '../../support/api';
import { makeKey } from '../../support/keys';
import { type IdentityWorld, openIdentityWorld } from './world';

let world: IdentityWorld;

beforeAll(async () => {
  world = await openIdentityWorld();
});

afterAll(() => world.close());

/** Signs in a person of these groups. */
function comeWith(sub: string, groups: unknown, more: Record<string, unknown> = {}) {
  return world.signInAs({
    sub,
    email: `${sub}@demo.example`,
    email_verified: true,
    groups,
    ...more,
  });
}

async function standing(user_id: string) {
  const { org_id } = world.tenant;
  const [row] = await many<{ role: string; team: string | null }>(
    world.api.db,
    `select m.role, (select q.role from team_members q where q.team_id = :team_id and q.user_id = m.user_id) as team
     from memberships m where m.org_id = :org_id and m.user_id = :user_id`,
    { org_id, user_id, team_id: world.tenant.team_id },
  );
  return row;
}

test('the people of the sandbox get what their groups give', async () => {
  const lena = await world.signIn('lena');
  expect(await standing(lena.body.user_id)).toEqual({ role: 'member', team: 'admin' });
  const fay = await world.signIn('fay');
  expect(fay.body.scopes).toEqual(['org:billing']);
});

test('groups are applied anew at each sign-in, and what they gave goes with its keys', async () => {
  const sub = randomUUID();
  const { body } = await comeWith(sub, ['research', 'finance']);
  const { user_id } = body;
  expect(await standing(user_id)).toEqual({ role: 'billing_admin', team: 'member' });
  const key = await makeKey(world.api.db, world.tenant.org_id, {
    token_type: 'gateway',
    user_id,
    team_id: world.tenant.team_id,
  });
  await comeWith(sub, ['research-leads']);
  expect(await standing(user_id)).toEqual({ role: 'member', team: 'admin' });
  await comeWith(sub, []);
  expect(await standing(user_id)).toEqual({ role: 'member', team: null });
  const { status } = await world.api.call('post', '/v1/gateway/keys/verify', {
    key: await makeKey(world.api.db, null, { scopes: ['control_plane'] }),
    body: { key },
  });
  expect(status).toBe(401);
});

test('whoever becomes admin of a team by a group loses the access keys of others for them', async () => {
  const { api, tenant } = world;
  const admin = await makePerson(api, tenant, 'admin');
  const sub = randomUUID();
  const { user_id } = (await comeWith(sub, ['research'])).body;
  const issued = await issueBy(api.call, admin.key, { user_id });
  expect(issued.status).toBe(201);
  expect((await api.call('get', '/v1/me', { key: issued.body.key })).status).toBe(200);
  await comeWith(sub, ['research-leads']);
  expect((await api.call('get', '/v1/me', { key: issued.body.key })).status).toBe(401);
});

test('a sign-in keeps what its own groups give, whoever had invited it', async () => {
  const { api, tenant } = world;
  const admin = await makePerson(api, tenant, 'admin');
  const member = await makePerson(api, tenant, 'member');
  const invite = async () => {
    const at = `${member.at}/invitations`;
    return (await api.call('post', at, { key: admin.key })).body.invitation as string;
  };
  const [sub, other] = [randomUUID(), randomUUID()];
  const claims = (of: string, groups: string[]) => ({ sub: of, groups });
  expect((await world.signInAs(claims(other, []), { invitation: await invite() })).status).toBe(
    201,
  );
  const first = await world.signInAs(claims(sub, ['finance']), { invitation: await invite() });
  expect(first.body).toMatchObject({ user_id: member.user_id, scopes: ['org:billing'] });
  expect((await world.signInAs(claims(sub, ['finance']))).status).toBe(201);
  // The other one, whose groups gave nothing, would have risen with it.
  expect((await world.signInAs(claims(other, []))).status).toBe(403);
});

test('what people gave by hand stays, whatever the groups say', async () => {
  const { api, tenant } = world;
  const sub = randomUUID();
  const { body } = await comeWith(sub, []);
  const { user_id } = body;
  const team = `/v1/organizations/${tenant.org_id}/teams/${tenant.team_id}/members`;
  await api.call('post', team, { key: tenant.owner_key, body: { user_id } });
  const at = `/v1/organizations/${tenant.org_id}/members/${user_id}`;
  await api.call('put', at, { key: tenant.owner_key, body: { role: 'admin' } });
  await comeWith(sub, ['finance', 'research']);
  await comeWith(sub, []);
  expect(await standing(user_id)).toEqual({ role: 'admin', team: 'member' });
});

test('a role that people take away by hand is not given back by the next sign-in', async () => {
  const { api, tenant } = world;
  const sub = randomUUID();
  const { user_id } = (await comeWith(sub, ['finance'])).body;
  expect(await standing(user_id)).toMatchObject({ role: 'billing_admin' });
  const at = `/v1/organizations/${tenant.org_id}/members/${user_id}`;
  const set = (role: string) => api.call('put', at, { key: tenant.owner_key, body: { role } });
  expect((await set('member')).status).toBe(200);
  await comeWith(sub, ['finance']);
  expect(await standing(user_id)).toMatchObject({ role: 'member' });
  // Nor one that people gave and took.
  const other = randomUUID();
  const second = (await comeWith(other, [])).body.user_id as string;
  const path = `/v1/organizations/${tenant.org_id}/members/${second}`;
  for (const role of ['admin', 'member'])
    await api.call('put', path, { key: tenant.owner_key, body: { role } });
  await comeWith(other, ['finance']);
  expect(await standing(second)).toMatchObject({ role: 'member' });
});

test('a place in a team that people give is theirs from then on, also if a group gave it before', async () => {
  const { api, tenant } = world;
  const sub = randomUUID();
  const { user_id } = (await comeWith(sub, ['research'])).body;
  const team = `/v1/organizations/${tenant.org_id}/teams/${tenant.team_id}/members`;
  const given = await api.call('post', team, { key: tenant.owner_key, body: { user_id } });
  expect(given.status).toBe(201);
  await comeWith(sub, []);
  expect(await standing(user_id)).toEqual({ role: 'member', team: 'member' });
});

test('a place in a team that people take away is not given back by groups, but by people', async () => {
  const { api, tenant } = world;
  const sub = randomUUID();
  const { user_id } = (await comeWith(sub, ['research'])).body;
  const key = tenant.owner_key;
  const team = `/v1/organizations/${tenant.org_id}/teams/${tenant.team_id}/members`;
  expect((await api.call('delete', `${team}/${user_id}`, { key })).status).toBe(200);
  await comeWith(sub, ['research']);
  await comeWith(sub, ['research-leads']);
  expect(await standing(user_id)).toEqual({ role: 'member', team: null });
  await api.call('post', team, { key, body: { user_id } });
  expect(await standing(user_id)).toEqual({ role: 'member', team: 'member' });
  // What the groups take back themselves, they may give again.
  const other = randomUUID();
  const second = (await comeWith(other, ['research'])).body.user_id as string;
  for (const groups of [[], ['research']]) await comeWith(other, groups);
  expect(await standing(second)).toEqual({ role: 'member', team: 'member' });
});

test('whoever is removed and taken in anew gets what their groups give', async () => {
  const { api, tenant } = world;
  const sub = randomUUID();
  const { user_id } = (await comeWith(sub, ['research'])).body;
  const key = tenant.owner_key;
  const org = `/v1/organizations/${tenant.org_id}`;
  await api.call('delete', `${org}/teams/${tenant.team_id}/members/${user_id}`, { key });
  await api.call('delete', `${org}/members/${user_id}`, { key });
  await api.call('post', `${org}/members`, { key, body: { user_id } });
  await comeWith(sub, ['research']);
  expect(await standing(user_id)).toEqual({ role: 'member', team: 'member' });
});

test('what no grant gives any more goes with the change of the issuer, and nothing else does', async () => {
  const { api, platform, tenant, issuer_id } = world;
  const path = `/v1/admin/issuers/${issuer_id}`;
  const list = await api.call('get', '/v1/admin/issuers', { key: platform });
  const { group_grants } = list.body.issuers.find((one: { id: string }) => one.id === issuer_id);
  const put = async (grants: object[]) => {
    const answer = await api.call('put', path, { key: platform, body: { group_grants: grants } });
    expect(answer).toMatchObject({ status: 200, body: { group_grants: grants } });
  };
  const { user_id } = (await comeWith(randomUUID(), ['research-leads', 'finance'])).body;
  const by_hand = await makePerson(api, tenant, 'billing_admin');
  expect(await standing(user_id)).toEqual({ role: 'billing_admin', team: 'admin' });
  const key = await makeKey(api.db, tenant.org_id, {
    ...{ token_type: 'gateway', user_id, team_id: tenant.team_id },
  });
  const without = (...names: string[]) =>
    group_grants.filter(({ group }: { group: string }) => !names.includes(group));
  // Another name of a group takes nothing: whose group it is, is known at the next sign-in.
  await put(
    group_grants.map((one: { group: string }) =>
      one.group === 'finance' ? { ...one, group: 'controlling' } : one,
    ),
  );
  expect(await standing(user_id)).toEqual({ role: 'billing_admin', team: 'admin' });
  await put(without('finance'));
  expect(await standing(user_id)).toEqual({ role: 'member', team: 'admin' });
  // A grant of the team is left, none of its lead.
  await put(without('finance', 'research-leads'));
  expect(await standing(user_id)).toEqual({ role: 'member', team: 'member' });
  const verified = async () => {
    const machine = await makeKey(api.db, null, { scopes: ['control_plane'] });
    const path = '/v1/gateway/keys/verify';
    return (await api.call('post', path, { key: machine, body: { key } })).status;
  };
  expect(await verified()).toBe(200);
  await put([]);
  expect(await standing(user_id)).toEqual({ role: 'member', team: null });
  expect(await verified()).toBe(401);
  expect(await standing(by_hand.user_id)).toEqual({ role: 'billing_admin', team: null });
  await put(group_grants);
});

test('a group that no grant names gives nothing', async () => {
  const { user_id } = (await comeWith(randomUUID(), ['research-leads-of-old', 'Research'])).body;
  expect(await standing(user_id)).toEqual({ role: 'member', team: null });
});

test('no group makes or unmakes an owner, and no setting can say so', async () => {
  const owner = await makePerson(world.api, world.tenant, 'owner');
  const { body } = await world.api.call('post', `${owner.at}/invitations`, {
    key: world.tenant.owner_key,
  });
  const sub = randomUUID();
  await world.signInAs({ sub, groups: ['finance'] }, { invitation: body.invitation });
  expect((await standing(owner.user_id))?.role).toBe('owner');
  for (const role of ['owner', 'platform:admin']) {
    const answer = await world.api.call('put', `/v1/admin/issuers/${world.issuer_id}`, {
      key: world.platform,
      body: { group_grants: [{ group: 'x', role }] },
    });
    expect(refusal(answer)).toMatchObject({ status: 422, param: 'group_grants.0.role' });
  }
});

test('a list of groups that is none, or too long for a person, changes nothing and says so', async () => {
  const sub = randomUUID();
  const { body } = await comeWith(sub, ['research']);
  const many_groups = Array.from({ length: 5_001 }, () => 'g');
  const refused: [number, unknown, object?][] = [
    [401, ['research\u0000']],
    [401, [7]],
    [401, { research: true }],
    [403, many_groups],
    [403, undefined, { _claim_names: { groups: 'src1' } }],
  ];
  for (const [status, groups, more = {}] of refused) {
    const answer = await comeWith(sub, groups, more as Record<string, unknown>);
    expect(answer.status).toBe(status);
    expect(await standing(body.user_id)).toEqual({ role: 'member', team: 'member' });
  }
  const longer = Array.from({ length: 10_000 }, (_, n) => `a group with a long name ${n}`);
  expect((await comeWith(sub, longer)).body.error.message).toMatch(/^You have too many groups/);
  expect((await comeWith(sub, 'research')).status).toBe(201);
});

test('a grant of a team of others, or for an issuer of no organization, is refused', async () => {
  const answer = await world.api.call('put', `/v1/admin/issuers/${world.issuer_id}`, {
    key: world.platform,
    body: { group_grants: [{ group: 'x', team_id: 'team_of_nobody' }] },
  });
  expect(refusal(answer)).toMatchObject({ status: 404, param: 'group_grants.0.team_id' });
});
