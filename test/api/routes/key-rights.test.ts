import { randomUUID } from 'node:crypto';
import { type Role, rolePermissions } from '../../../domain/people/roles';
import type { Db } from '../../../domain/sql';
import {
  type CallApi,
  issueBy,
  makePerson,
  makeTenant,
  refusal,
  startApi,
  type Tenant,
} from '../../support/api';
import { gatewayToken, makeKey, platformKey } from '../../support/keys';
import { eventsOf } from '../../support/ledger';

let db: Db;
let call: CallApi;
let close: () => Promise<void>;
let tenant: Tenant;
let platform: string;

beforeAll(async () => {
  ({ db, call, close } = await startApi());
  platform = await platformKey(db);
});
beforeEach(async () => {
  tenant = await makeTenant(db);
});
afterAll(() => close());

const personOf = (role: Role) => makePerson({ db, call }, tenant, role);
const issue = (key: string, more?: object) => issueBy(call, key, more);

test('ending and renewing a key asks the same: no more scopes than one has, nobody whom one may not manage', async () => {
  const [owner, admin, other] = [
    await personOf('owner'),
    await personOf('admin'),
    await personOf('admin'),
  ];
  const named = async (more: object) => {
    const name = randomUUID();
    await makeKey(db, tenant.org_id, { name, ...more });
    return name;
  };
  const refused = [
    await named({ user_id: owner.user_id, scopes: rolePermissions.owner }),
    await named({ user_id: owner.user_id }),
    await named({ user_id: owner.user_id, token_type: 'gateway' }),
    await named({ scopes: ['org:billing'] }),
  ];
  for (const name of refused) {
    const end = await call('delete', `/v1/tokens/${name}`, { key: admin.key });
    const renew = await call('post', `/v1/tokens/${name}/rotate`, { key: admin.key });
    expect([end.status, renew.status]).toEqual([403, 403]);
  }
  const narrow = await makeKey(db, tenant.org_id, { scopes: ['tokens:write'] });
  const billing = await named({ scopes: ['org:billing'] });
  expect((await call('delete', `/v1/tokens/${billing}`, { key: narrow })).status).toBe(403);
  const allowed = [
    await named({ user_id: admin.user_id, scopes: rolePermissions.admin }),
    await named({ user_id: other.user_id, scopes: ['agents:read'] }),
    await named({ user_id: tenant.member_id, token_type: 'gateway' }),
    await named({ user_id: owner.user_id, token_type: 'gateway', created_by: admin.user_id }),
  ];
  for (const name of allowed)
    expect((await call('delete', `/v1/tokens/${name}`, { key: admin.key })).status).toBe(200);
});

test('an access key for a person is made only by who may manage that person', async () => {
  const [owner, admin] = [await personOf('owner'), await personOf('admin')];
  expect(refusal(await issue(admin.key, { user_id: owner.user_id }))).toEqual({
    status: 403,
    code: 'permission_denied',
    param: 'user_id',
  });
  expect((await issue(admin.key, { user_id: tenant.member_id })).status).toBe(201);
  expect((await issue(owner.key, { user_id: admin.user_id })).status).toBe(201);
  expect((await issue(platform, { user_id: owner.user_id, org_id: tenant.org_id })).status).toBe(
    201,
  );
});

test('a person is told by an event of each gateway key that draws on their wallet', async () => {
  const [owner, admin] = [await personOf('owner'), await personOf('admin')];
  const more = { token_type: 'gateway', user_id: owner.user_id };
  const { body } = await issue(admin.key, more);
  await issue(owner.key, more);
  const [told, own] = await eventsOf(db, tenant.org_id, 'key.issued');
  expect(told).toEqual({
    key_id: body.id,
    name: body.name,
    user_id: owner.user_id,
    team_id: null,
    created_by: admin.user_id,
  });
  expect(own).toMatchObject({ user_id: owner.user_id, created_by: owner.user_id });
});

test('a key for a person and a team that they are not in is not issued', async () => {
  const { user_id } = await personOf('member');
  const more = { token_type: 'gateway', user_id, team_id: tenant.team_id };
  expect(refusal(await issue(tenant.owner_key, more))).toEqual({
    status: 422,
    code: 'invalid_field',
    param: 'team_id',
  });
  const member = { ...more, user_id: tenant.member_id };
  expect((await issue(tenant.owner_key, member)).status).toBe(201);
});

test("control_plane goes with no scope of people, and such a key of before opens no tenant's door", async () => {
  const scopes = ['control_plane', 'org:billing', 'agents:read', 'agents:write'] as const;
  expect(refusal(await issue(platform, { scopes }))).toEqual({
    status: 422,
    code: 'invalid_field',
    param: 'scopes',
  });
  expect((await issue(platform, { scopes: ['control_plane'] })).status).toBe(201);
  const old = await makeKey(db, null, { scopes: [...scopes] });
  for (const [method, path] of [
    ['get', '/v1/cost-tickets/x'],
    ['post', '/v1/cost-tickets/x/approve'],
    ['post', '/v1/cost-tickets/x/deny'],
    ['get', `/v1/agents/${tenant.agent_id}/usage-constraints`],
    ['post', `/v1/agents/${tenant.agent_id}/usage-constraints`],
    ['put', `/v1/agents/${tenant.agent_id}/usage-constraints/x`],
    ['delete', `/v1/agents/${tenant.agent_id}/usage-constraints/x`],
    ['get', '/v1/reservations/x/price-sheet'],
  ] as const)
    expect({ path, status: (await call(method, path, { key: old })).status }).toEqual({
      path,
      status: 403,
    });
  const machine = { key: await gatewayToken(db), body: { key: 'svc_gk_x' } };
  expect((await call('post', '/v1/gateway/keys/verify', machine)).status).toBe(401);
  expect((await call('post', '/v1/gateway/keys/verify', { ...machine, key: old })).status).toBe(
    401,
  );
});
