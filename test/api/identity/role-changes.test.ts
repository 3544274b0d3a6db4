import { randomUUID } from 'node:crypto';
import { rolePermissions } from '../../../domain/people/roles';
import { type Answer, issueBy, makePerson, type Person } from '../../support/api';
import { type IdentityWorld, openIdentityWorld } from './world';

// What somebody has of another person falls when that person's role gains what they lack: also if
// it loses something at the same time, and if the person comes back to the organization.

let world: IdentityWorld;

beforeAll(async () => {
  world = await openIdentityWorld();
});

afterAll(() => world.close());

const me = (key: string) => world.api.call('get', '/v1/me', { key });
const people = () => `/v1/organizations/${world.tenant.org_id}/members`;
const owner = (body: object) => ({ key: world.tenant.owner_key, body });
const admin = () => makePerson(world.api, world.tenant, 'admin');

/** Signs in by a new subject that the bearer of a key binds to a person. */
async function bind(user_id: string, key: string) {
  const sub = randomUUID();
  const path = `${people()}/${user_id}/invitations`;
  const { invitation } = (await world.api.call('post', path, { key })).body;
  const { status, body } = await world.signInAs({ sub }, { invitation });
  expect([status, body.user_id]).toEqual([201, user_id]);
  return { sub, key: body.key as string };
}

/** What was bound by such a subject is of no use any more. */
async function requireUnbound({ sub, key }: { sub: string; key: string }) {
  expect((await me(key)).status).toBe(401);
  expect((await world.signInAs({ sub })).status).toBe(403);
}

const credit = (key: string): Promise<Answer> =>
  world.api.call('post', '/v1/wallets/credit', {
    key,
    body: { target_wallet_owner_type: 'organization', amount: 1_000 },
  });

test('an admin who becomes a billing admin takes nobody along who has no org:billing', async () => {
  const { api, tenant } = world;
  const [one, other] = [await admin(), await admin()];
  const evil = await bind(other.user_id, one.key);
  const issued = await issueBy(api.call, one.key, { user_id: other.user_id });
  const made = await issueBy(api.call, other.key, { token_type: 'gateway' });
  const own = await bind(other.user_id, tenant.owner_key);
  const changed = await api.call('put', other.at, owner({ role: 'billing_admin' }));
  expect(changed).toMatchObject({
    status: 200,
    body: { role: 'billing_admin', unbound_identities: [{ subject: evil.sub }] },
  });
  // Both directions count: what they made falls with what they lose.
  const revoked = changed.body.revoked_keys.map(({ id }: { id: string }) => id);
  expect(revoked.sort()).toEqual([issued.body.id, made.body.id].sort());
  expect((await credit(evil.key)).status).toBe(401);
  await requireUnbound(evil);
  expect((await me(issued.body.key)).status).toBe(401);
  // Whoever may do as much stays the one that they invited.
  expect((await credit(own.key)).status).toBe(201);
});

test('nor does one whose groups make them a billing admin in place of an admin', async () => {
  const grants = [
    { group: 'admins', role: 'admin' },
    { group: 'finance', role: 'billing_admin' },
  ];
  await world.setIssuer({ group_grants: grants });
  const sub = randomUUID();
  const come = (groups: string[]) =>
    world.signInAs({ sub, groups, email: `${sub}@demo.example`, email_verified: true });
  const { user_id } = (await come(['admins'])).body;
  const evil = await bind(user_id, (await admin()).key);
  const own = await bind(user_id, world.tenant.owner_key);
  // These subjects have no groups, which took the role away.
  expect((await come(['admins'])).body.scopes).toEqual(rolePermissions.admin);
  expect((await me(evil.key)).status).toBe(200);
  expect((await come(['finance'])).body).toMatchObject({ user_id, scopes: ['org:billing'] });
  await requireUnbound(evil);
  expect((await me(own.key)).status).toBe(200);
});

describe('a former member who comes back', () => {
  const removed = async ({ at }: Person) =>
    expect((await world.api.call('delete', at, owner({}))).status).toBe(200);
  const back = async ({ user_id }: Person, role: string) =>
    expect((await world.api.call('post', people(), owner({ user_id, role }))).status).toBe(201);

  test.each(['owner', 'billing_admin'])('as %s is nobody else', async (role) => {
    const [one, other] = [await admin(), await admin()];
    const evil = await bind(other.user_id, one.key);
    await removed(other);
    await back(other, role);
    await requireUnbound(evil);
  });

  test('with the role of before is whoever they were', async () => {
    const [one, other] = [await admin(), await admin()];
    const own = await bind(other.user_id, one.key);
    await removed(other);
    expect((await world.signInAs({ sub: own.sub })).status).toBe(403);
    await back(other, 'admin');
    const again = await world.signInAs({ sub: own.sub });
    expect([again.status, again.body.user_id]).toEqual([201, other.user_id]);
  });
});
