import { randomUUID } from 'node:crypto';
import { rolePermissions } from '../../../domain/people/roles';
import {
  issueBy,
  makePerson,
  makeTenant,
  type Person,
  startApi,
  type Tenant,
  type TestApi,
} from '../../support/api';
import { eventsOf } from '../../support/ledger';

let api: TestApi;
let tenant: Tenant;
let admin: Person;
let peer: Person;

beforeAll(async () => {
  api = await startApi();
});
beforeEach(async () => {
  tenant = await makeTenant(api.db);
  admin = await makePerson(api, tenant, 'admin');
  peer = await makePerson(api, tenant, 'admin');
});
afterAll(() => api.close());

const owner = () => ({ key: tenant.owner_key });
const remove = (person: Person, body: object = {}) =>
  api.call('delete', person.at, { ...owner(), body });
const works = async (key: string) => (await api.call('get', '/v1/wallets', { key })).status === 200;
const made = async (key: string, more: object) => {
  const answer = await issueBy(api.call, key, more);
  expect(answer.status).toBe(201);
  return answer.body as { id: string; name: string; key: string };
};
const listedAs = async (created_by: string) => {
  const { body } = await api.call('get', `/v1/tokens?created_by=${created_by}`, owner());
  return (body.tokens as { id: string }[]).map(({ id }) => id).sort();
};

test('what somebody made with a key that stands for another person falls with them, along the whole chain', async () => {
  const scopes = rolePermissions.admin;
  const one = await made(admin.key, { user_id: peer.user_id, scopes });
  const two = await made(one.key, { user_id: peer.user_id, scopes });
  const three = await made(two.key, { token_type: 'gateway' });
  const four = await made(two.key, { scopes: ['agents:read'] });
  const chain = [one, two, three, four].map(({ id }) => id).sort();
  expect(await listedAs(admin.user_id)).toEqual(chain);
  const { status, body } = await remove(admin);
  const revoked = (body.revoked_keys as { id: string }[]).map(({ id }) => id);
  expect([status, revoked]).toEqual([200, expect.arrayContaining(chain)]);
  for (const { key } of [one, two, four]) expect(await works(key)).toBe(false);
  // What the peer holds by themselves stays.
  expect(await works(peer.key)).toBe(true);
});

test('a demotion ends the chain too, and a person who was made up for it', async () => {
  const bot = await makePerson(api, tenant, 'admin');
  const scopes = rolePermissions.admin;
  const one = await made(admin.key, { user_id: bot.user_id, scopes });
  const two = await made(one.key, { user_id: bot.user_id, scopes });
  const demoted = await api.call('put', admin.at, { ...owner(), body: { role: 'member' } });
  expect(demoted.status).toBe(200);
  for (const { key } of [one, two]) expect(await works(key)).toBe(false);
});

test('whoever drew a new value of a key answers for it, as if they had made it', async () => {
  const service = await made(tenant.owner_key, { scopes: ['agents:read'] });
  const rotated = await api.call('post', `/v1/tokens/${service.name}/rotate`, {
    key: admin.key,
    body: { overlap_seconds: 3_600 },
  });
  expect(rotated.status).toBe(201);
  expect(await listedAs(admin.user_id)).toEqual([service.id]);
  expect((await remove(admin)).body.revoked_keys).toEqual(
    expect.arrayContaining([expect.objectContaining({ id: service.id })]),
  );
  for (const key of [rotated.body.key, service.key]) expect(await works(key)).toBe(false);
});

test("keep_keys may name all: they become the caller's, with no more scopes than the caller has", async () => {
  const one = await made(admin.key, { scopes: ['agents:read'] });
  const two = await made(admin.key, { user_id: peer.user_id, scopes: ['agents:read'] });
  const { body } = await remove(admin, { keep_keys: ['*'] });
  const kept = (body.kept_keys as { id: string }[]).map(({ id }) => id).sort();
  expect(kept).toEqual([one.id, two.id].sort());
  for (const { key } of [one, two]) expect(await works(key)).toBe(true);
  expect(await works(admin.key)).toBe(false);
  expect(await listedAs(admin.user_id)).toEqual([]);
});

test('a key that somebody below made for a person does not rise with that person', async () => {
  const strong = await made(admin.key, {
    user_id: peer.user_id,
    scopes: rolePermissions.admin,
  });
  const weak = await made(admin.key, { user_id: peer.user_id, scopes: [] });
  const raised = await api.call('put', peer.at, { ...owner(), body: { role: 'owner' } });
  expect((raised.body.revoked_keys as { id: string }[]).map(({ id }) => id).sort()).toEqual(
    [strong.id, weak.id].sort(),
  );
  for (const { key } of [strong, weak]) expect(await works(key)).toBe(false);
  expect(await works(peer.key)).toBe(true);
});

test('a weaker key of a person revokes none of their stronger ones', async () => {
  const weak = await made(peer.key, { user_id: peer.user_id, scopes: ['tokens:write'] });
  const name = randomUUID();
  await made(peer.key, { user_id: peer.user_id, scopes: rolePermissions.admin, name });
  const refused = await api.call('delete', `/v1/tokens/${name}`, { key: weak.key });
  expect(refused.status).toBe(403);
  expect((await api.call('delete', `/v1/tokens/${name}`, { key: peer.key })).status).toBe(200);
});

test("a person is told of each key that draws on their wallet, whoever's key asked for it", async () => {
  const borrowed = await made(admin.key, { user_id: peer.user_id, scopes: rolePermissions.admin });
  const { id } = await made(borrowed.key, { token_type: 'gateway', user_id: peer.user_id });
  expect(await eventsOf(api.db, tenant.org_id, 'key.issued')).toContainEqual(
    expect.objectContaining({ key_id: id, user_id: peer.user_id }),
  );
});
