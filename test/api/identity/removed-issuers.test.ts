import * as groupGrants from '../../../domain/people/group-grants';
import * as issuers from '../../../domain/people/issuers';
import { many } from '../../../domain/sql';
import { makePerson } from '../../support/api';
import { type IdentityWorld, openIdentityWorld } from './world';

// An identity provider that is taken out takes what its groups gave to many people, without their
// organization standing still meanwhile.

let world: IdentityWorld;

beforeAll(async () => {
  world = await openIdentityWorld();
});

afterAll(() => world.close());

/** People whom the groups of the issuer gave a team, a role and a key of that team. */
async function givenToMany(count: number): Promise<string[]> {
  const { api, tenant, issuer_id } = world;
  const ids: string[] = [];
  for (let n = 0; n < count; n += 1) {
    const { user_id } = await makePerson(api, tenant, 'member');
    ids.push(user_id);
  }
  const at = { ids, issuer_id, org_id: tenant.org_id, team_id: tenant.team_id };
  await many(
    api.db,
    `update memberships set role = 'billing_admin', granted_by = :issuer_id where org_id = :org_id and user_id = any(:ids)`,
    at,
  );
  await many(
    api.db,
    `insert into team_members (team_id, user_id, granted_by) select :team_id, id, :issuer_id from unnest(:ids::text[]) as id`,
    at,
  );
  return ids;
}

const given = (ids: string[]) =>
  many(
    world.api.db,
    `select user_id from memberships where org_id = :org_id and user_id = any(:ids) and role <> 'member'
     union all select user_id from team_members where user_id = any(:ids)`,
    { org_id: world.tenant.org_id, ids },
  );

describe('an issuer whose groups gave something to many', () => {
  let body: object;
  const path = () => `/v1/admin/issuers/${world.issuer_id}`;

  beforeEach(async () => {
    const { api, platform, issuer_id } = world;
    const list = await api.call('get', '/v1/admin/issuers', { key: platform });
    const found = list.body.issuers.find((one: { id: string }) => one.id === issuer_id);
    const { id: _, has_client_secret: __, created_at: ___, ...rest } = found;
    body = rest;
  });
  afterEach(async () => {
    const again = await world.api.call('post', '/v1/admin/issuers', { key: world.platform, body });
    expect(again).toMatchObject({ status: 201, body: { id: world.issuer_id } });
  });

  test('is taken out by steps of ten people, between which calls have the organization', async () => {
    const { api, platform, issuer_id } = world;
    const ids = await givenToMany(25);
    await api.db.transaction((trx) => issuers.archive(trx, issuer_id));
    const left: number[] = [];
    await groupGrants.takeBack(issuer_id, async (step) => {
      const last = await api.db.transaction(step);
      left.push((await given(ids)).length);
      return last;
    });
    // A role and a team each.
    expect(left).toEqual([30, 10, 0, 0]);
    expect((await api.call('delete', path(), { key: platform })).status).toBe(404);
  });

  test('loses the rest by the same request, or by itself, after a kill', async () => {
    const { api, platform, issuer_id } = world;
    const left = async () => {
      const ids = await givenToMany(3);
      await api.db.transaction((trx) => issuers.archive(trx, issuer_id));
      return ids;
    };
    const ids = await left();
    expect((await api.call('delete', path(), { key: platform })).status).toBe(200);
    expect(await given(ids)).toEqual([]);
    await api.call('post', '/v1/admin/issuers', { key: platform, body });
    const others = await left();
    expect(await groupGrants.takeBackLeft(api.db)).toBe(1);
    expect(await given(others)).toEqual([]);
    expect(await groupGrants.takeBackLeft(api.db)).toBe(0);
  });

  test('that is back meanwhile takes nothing more', async () => {
    const { api, platform, issuer_id } = world;
    const ids = await givenToMany(3);
    await api.call('delete', path(), { key: platform });
    await api.call('post', '/v1/admin/issuers', { key: platform, body });
    const [one] = await givenToMany(1);
    await groupGrants.takeBack(issuer_id, (step) => api.db.transaction(step));
    expect(await given([one as string, ...ids])).toHaveLength(2);
    await api.call('delete', path(), { key: platform });
    expect(await given([one as string])).toEqual([]);
  });
});
