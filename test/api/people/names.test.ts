import type { Db } from '../../../domain/sql';
import {
  type CallApi,
  makePerson,
  makeTenant,
  refusal,
  startApi,
  type Tenant,
} from '../../support/api';
import { issueKey, platformKey } from '../../support/keys';

let db: Db;
let call: CallApi;
let close: () => Promise<void>;
let tenant: Tenant;
let other: Tenant;
let key: { id: string; key: string };
let own: { id: string; key: string };

beforeAll(async () => {
  ({ db, call, close } = await startApi());
  [tenant, other] = [await makeTenant(db), await makeTenant(db)];
  key = await issueKey(db, tenant.org_id, { token_type: 'gateway', name: 'Nightly' });
  own = await issueKey(db, tenant.org_id, { user_id: tenant.member_id, name: 'Mine' });
});

afterAll(() => close());

/** The names that a key is told, by id. */
async function namesFor(bearer: string, ids: readonly string[]) {
  const answer = await call('get', `/v1/names?ids=${ids.join(',')}`, { key: bearer });
  expect(answer.status).toBe(200);
  const found = answer.body.names as { id: string; type: string; name: string }[];
  return Object.fromEntries(found.map(({ id, type, name }) => [id, `${type} ${name}`]));
}

test('ids of any kind have the names that their organization gave them', async () => {
  const { org_id, member_id, team_id, agent_id, wallet_id } = tenant;
  const budget = await call('post', '/v1/budgets', {
    key: tenant.owner_key,
    body: { owner_type: 'key', owner_id: key.id, limit: 1, window: 'day' },
  });
  expect(budget.status).toBe(201);
  const ids = [org_id, member_id, team_id, agent_id, wallet_id, key.id, budget.body.id];
  const names = await namesFor(tenant.owner_key, [...ids, 'req_unknown', member_id]);
  const [org] = await db('organizations').where({ id: org_id }).select('name');
  const tag = org.name.slice('Org '.length);
  expect(names).toEqual({
    [org_id]: `organization Org ${tag}`,
    [member_id]: `user Member ${tag}`,
    [team_id]: `team Team ${tag}`,
    [agent_id]: `agent Agent ${tag}`,
    [wallet_id]: `wallet Org ${tag}`,
    [key.id]: 'key Nightly',
    [budget.body.id]: 'budget Nightly',
  });
});

test('who has left and what was archived or revoked keeps its name', async () => {
  const person = await makePerson({ db, call }, tenant, 'member');
  const team = await call('post', `/v1/organizations/${tenant.org_id}/teams`, {
    ...{ key: tenant.owner_key, body: { name: 'Gone' } },
  });
  const revoked = await issueKey(db, tenant.org_id, { token_type: 'gateway', name: 'Ended' });
  const gone = [
    [person.at, person.user_id],
    [`/v1/organizations/${tenant.org_id}/teams/${team.body.id}`, team.body.id],
    ['/v1/tokens/Ended', revoked.id],
  ] as const;
  for (const [at] of gone)
    expect((await call('delete', at, { key: tenant.owner_key })).status).toBeLessThan(300);
  const names = await namesFor(tenant.owner_key, [person.user_id, team.body.id, revoked.id]);
  expect(Object.keys(names).sort()).toEqual([person.user_id, team.body.id, revoked.id].sort());
});

test('members read no names of the keys of others, and nobody those of another organization', async () => {
  const { org_id, member_id, member_key, wallet_id, team_id } = tenant;
  const ids = [org_id, member_id, team_id, wallet_id, key.id, own.id];
  expect(Object.keys(await namesFor(member_key, ids)).sort()).toEqual(
    ids.filter((id) => id !== key.id).sort(),
  );
  expect(await namesFor(other.owner_key, ids)).toEqual({});
  const all = [...ids, other.org_id, other.member_id];
  expect(Object.keys(await namesFor(await platformKey(db), all)).sort()).toEqual(all.sort());
});

test.each([
  ['', 'invalid_field'],
  [Array.from({ length: 101 }, (_, n) => `id_${n}`).join(','), 'invalid_field'],
])('more ids than 100, and none, are refused', async (ids, code) => {
  const answer = await call('get', `/v1/names?ids=${ids}`, { key: tenant.owner_key });
  expect(refusal(answer)).toMatchObject({ status: 422, code });
});
