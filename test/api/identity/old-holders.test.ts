import { randomUUID } from 'node:crypto';
import { rolePermissions } from '../../../domain/people/roles';
import { many } from '../../../domain/sql';
import { issueBy, makePerson } from '../../support/api';
import { type IdentityWorld, openIdentityWorld } from './world';

// What a session bound, invited or opened is known as its maker's after the session is forgotten.

let world: IdentityWorld;

beforeAll(async () => {
  world = await openIdentityWorld();
});

afterAll(() => world.close());

const invite = async (at: string, key: string) =>
  (await world.api.call('post', `${at}/invitations`, { key })).body.invitation as string;

/** A session as one admin, made by another one with a key that stands for the first. */
async function sessionAsOther() {
  const { api, tenant } = world;
  const [maker, other] = [
    await makePerson(api, tenant, 'admin'),
    await makePerson(api, tenant, 'admin'),
  ];
  const issued = await issueBy(api.call, maker.key, {
    user_id: other.user_id,
    scopes: rolePermissions.admin,
  });
  expect(issued.status).toBe(201);
  const open = await api.call('post', '/v1/sessions', { body: { access_key: issued.body.key } });
  expect(open.status).toBe(201);
  return { maker, other, session: open.body as { id: string; key: string } };
}

/** Lets the living sessions of a person be over for eight days, and signs them in once more. */
async function forgetSessions(user_id: string, at: string, id: string) {
  const { api, tenant } = world;
  await many(
    api.db,
    `update tokens set created_at = created_at - interval '9 days', revoked_at = clock_timestamp() - interval '8 days'
     where id = :id`,
    { id },
  );
  const sub = randomUUID();
  const invitation = await invite(at, tenant.owner_key);
  expect((await world.signInAs({ sub }, { invitation })).body.user_id).toBe(user_id);
}

describe.each(['before', 'after'] as const)('a sign-in bound %s its session ended', (when) => {
  /** The subject by which the maker is the other one. */
  async function bindAsOther() {
    const { maker, other, session } = await sessionAsOther();
    const invitation = await invite(other.at, session.key);
    const sub = randomUUID();
    const bind = async () => {
      const made = await world.signInAs({ sub }, { invitation });
      expect([made.status, made.body.user_id]).toEqual([201, other.user_id]);
    };
    if (when === 'before') await bind();
    await forgetSessions(other.user_id, other.at, session.id);
    if (when === 'after') await bind();
    return { maker, other, sub };
  }

  test('falls with the removal of whoever made the session', async () => {
    const { maker, sub } = await bindAsOther();
    const key = world.tenant.owner_key;
    expect((await world.api.call('delete', maker.at, { key })).status).toBe(200);
    expect((await world.signInAs({ sub })).status).toBe(403);
  });

  test('does not rise with the member', async () => {
    const { other, sub } = await bindAsOther();
    const key = world.tenant.owner_key;
    const risen = await world.api.call('put', other.at, { key, body: { role: 'owner' } });
    expect(risen.status).toBe(200);
    expect((await world.signInAs({ sub })).status).toBe(403);
  });
});

test('a session that nothing came of is forgotten', async () => {
  const { other, session } = await sessionAsOther();
  await forgetSessions(other.user_id, other.at, session.id);
  const left = await many(world.api.db, 'select 1 from tokens where id = :id', {
    id: session.id,
  });
  expect(left).toEqual([]);
});
