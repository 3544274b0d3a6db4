import { randomUUID } from 'node:crypto';
import type { Db } from '../../domain/sql';
import { type CallApi, makeTenant, refusal, startApi, type Tenant } from '../support/api';
import { gatewayToken, makeKey, platformKey } from '../support/keys';
import { makePrice, reserveBody } from '../support/ledger';

let db: Db;
let call: CallApi;
let close: () => Promise<void>;
let own: Tenant;
let other: Tenant;
let gateway: string;

beforeAll(async () => {
  ({ db, call, close } = await startApi());
  own = await makeTenant(db);
  other = await makeTenant(db);
  gateway = await gatewayToken(db);
  await makePrice(db);
  const key = await platformKey(db);
  for (const { org_id } of [own, other]) {
    const body = { org_id, target_wallet_owner_type: 'organization', amount: 100 };
    await call('post', '/v1/admin/wallets/credit', { key, body });
  }
  await makeKey(db, other.org_id, { name: 'theirs' });
});

afterAll(() => close());

type Attempt = [method: string, path: string, body?: Record<string, unknown>];

function attempts(): Attempt[] {
  const { org_id, team_id, member_id: user_id, agent_id, wallet_id } = other;
  const mine = `/v1/organizations/${own.org_id}`;
  const theirs = `/v1/organizations/${org_id}`;
  const key = { name: randomUUID(), token_type: 'access' };
  const rule = { name: 'theirs', max_per_call: 1, max_per_day: 1 };
  const credit = (owner: object) => ({ amount: 1, ...owner });
  const target = (type: string, id: string) => ({
    target_wallet_owner_type: type,
    target_wallet_owner_id: id,
  });
  return [
    ['get', `/v1/wallets?org_id=${org_id}`],
    ['get', `/v1/wallets/balance?org_id=${org_id}`],
    ['get', `/v1/wallets/balance?team_id=${team_id}`],
    ['get', `/v1/wallets?team_id=${team_id}`],
    ['get', `/v1/wallets?user_id=${user_id}`],
    ['get', `/v1/wallets?member_of=${team_id}`],
    ['get', `${mine}/members?team_id=${team_id}`],
    ['get', `/v1/sessions?user_id=${user_id}`],
    ['delete', `/v1/sessions?user_id=${user_id}`],
    ['post', '/v1/approval-rules', { ...rule, team_id }],
    ['get', `/v1/wallets/${wallet_id}/transactions`],
    ['post', '/v1/wallets/credit', credit({ org_id, target_wallet_owner_type: 'organization' })],
    ['post', '/v1/wallets/credit', credit(target('organization', org_id))],
    ['post', '/v1/wallets/credit', credit(target('team', team_id))],
    ['post', '/v1/wallets/credit', credit(target('user', user_id))],
    ...['allocate', 'reclaim'].flatMap((name): Attempt[] => [
      ['post', `/v1/wallets/${name}`, { team_id, amount: 1 }],
      ['post', `/v1/wallets/${name}`, { user_id, amount: 1 }],
      ['post', `/v1/wallets/${name}`, { org_id, team_id, amount: 1 }],
    ]),
    ['get', theirs],
    ...['teams', 'members', 'agents'].flatMap((name): Attempt[] => [
      ['get', `${theirs}/${name}`],
      ['post', `${theirs}/${name}`, { name: randomUUID() }],
    ]),
    ['delete', `${mine}/teams/${team_id}`],
    ['delete', `${theirs}/teams/${team_id}`],
    ['post', `${mine}/teams/${team_id}/members`, { user_id: own.member_id }],
    ['post', `${mine}/teams/${own.team_id}/members`, { user_id }],
    ['delete', `${mine}/teams/${team_id}/members/${user_id}`],
    ['post', `${mine}/members`, { user_id }],
    ['put', `${mine}/members/${user_id}`, { role: 'member' }],
    ['put', `${theirs}/members/${user_id}`, { role: 'member' }],
    ['delete', `${mine}/members/${user_id}`],
    ['delete', `${mine}/agents/${agent_id}`],
    ['post', '/v1/tokens', { ...key, org_id }],
    ['post', '/v1/tokens', { ...key, user_id }],
    ['post', '/v1/tokens', { ...key, team_id }],
    ['post', '/v1/tokens', { ...key, agent_id }],
    ['get', `/v1/tokens?org_id=${org_id}`],
    ['get', '/v1/tokens/theirs'],
    ['get', `/v1/tokens/theirs?org_id=${org_id}`],
    ['delete', '/v1/tokens/theirs'],
    ['delete', `/v1/tokens/theirs?org_id=${org_id}`],
    ['post', '/v1/tokens/theirs/rotate'],
    ['post', '/v1/tokens/theirs/rotate', { org_id }],
  ];
}

async function everything() {
  const tables = [
    'wallets',
    'wallet_transactions',
    'memberships',
    'team_members',
    'teams',
    'agents',
    'token_secrets',
  ];
  const rows = tables.map((name) => db(name).select('*').orderByRaw('1, 2'));
  return [
    ...(await Promise.all(rows)),
    await db('tokens').select('id', 'scopes', 'revoked_at').orderBy('id'),
  ];
}

test("another tenant's id is 404 in every id field of people's routes, tells nothing, and writes nothing", async () => {
  const before = await everything();
  for (const [method, path, body] of attempts()) {
    const answer = await call(method, path, { key: own.owner_key, body });
    expect({ method, path, body, status: answer.status }).toEqual({
      method,
      path,
      body,
      status: 404,
    });
    expect(answer.body.error.code).toBe('not_found');
  }
  expect(await everything()).toEqual(before);
});

test("another tenant's id in a machine route is refused by name or unknown, and holds nothing", async () => {
  const before = await everything();
  const { member_id: user_id, team_id, agent_id } = other;
  const [{ id: key_id }] = await db('tokens').where({ org_id: other.org_id, name: 'theirs' });
  for (const [param, id] of Object.entries({ user_id, team_id, agent_id, key_id })) {
    const body = { ...reserveBody(own.org_id, 10), [param]: id };
    const answer = await call('post', '/v1/gateway/wallets/reserve', { key: gateway, body });
    expect(refusal(answer)).toMatchObject({ status: 422, param });
  }
  const held = await call('post', '/v1/gateway/wallets/reserve', {
    key: gateway,
    body: reserveBody(other.org_id, 10),
  });
  const { reservation_id } = held.body;
  const settle = { org_id: own.org_id, reservation_id, outcome: 'completed', usage: {} };
  expect(
    (await call('post', '/v1/gateway/wallets/settle', { key: gateway, body: settle })).status,
  ).toBe(404);
  const extended = await call('post', '/v1/gateway/wallets/extend', {
    key: gateway,
    body: { items: [{ org_id: own.org_id, reservation_id }] },
  });
  expect(extended.body.results).toMatchObject([{ reservation_id, status: 'unknown' }]);
  const given_back = { ...settle, org_id: other.org_id, outcome: 'canceled' };
  expect(
    (await call('post', '/v1/gateway/wallets/settle', { key: gateway, body: given_back })).status,
  ).toBe(200);
  expect((await everything())[2]).toEqual(before[2]);
});

test('a platform admin passes every check of an organization that it names', async () => {
  const key = await platformKey(db);
  for (const [method, path, body] of [
    ['get', `/v1/wallets?org_id=${own.org_id}`],
    ['get', `/v1/wallets/${own.wallet_id}/transactions`],
    [
      'post',
      '/v1/wallets/credit',
      { org_id: own.org_id, target_wallet_owner_type: 'organization', amount: 1 },
    ],
    ['post', '/v1/wallets/allocate', { org_id: own.org_id, team_id: own.team_id, amount: 1 }],
    ['post', `/v1/organizations/${own.org_id}/members`, { user_id: other.member_id }],
    ['get', `/v1/tokens?org_id=${own.org_id}`],
  ] as Attempt[]) {
    const { status } = await call(method, path, { key, body });
    expect({ path, good: status < 300 }).toEqual({ path, good: true });
  }
  const unnamed = await call('get', '/v1/wallets', { key });
  expect(refusal(unnamed)).toEqual({ status: 422, code: 'org_required', param: 'org_id' });
  expect((await call('get', '/v1/wallets?org_id=org_unknown', { key })).status).toBe(404);
});
