import { many } from '../../../domain/sql';
import { type Answer, makePerson, refusal, type Tenant, type TestApi } from '../../support/api';
import { locksAwaited } from '../../support/database';
import { makeKey, platformKey } from '../../support/keys';
import { until } from '../../support/until';
import { type IdentityWorld, openIdentityWorld } from './world';

// Sign-ins that meet a change of their person, or a database that undoes what they do.

let world: IdentityWorld;
let api: TestApi;
let tenant: Tenant;

beforeAll(async () => {
  world = await openIdentityWorld();
  ({ api, tenant } = world);
});
beforeEach(() => many(api.db, 'delete from sign_in_tries'));

afterAll(() => world.close());

const me = (key: string) => api.call('get', '/v1/me', { key });
const signIn = (body: object) => api.call('post', '/v1/sessions', { body });

test('a sign-in that waits while its person is removed is refused', async () => {
  const person = await makePerson(api, tenant, 'admin');
  let signing: Promise<Answer> | undefined;
  await api.db.transaction(async (trx) => {
    await many(
      trx,
      `update memberships set archived_at = clock_timestamp()
       where org_id = :org_id and user_id = :user_id`,
      { org_id: tenant.org_id, user_id: person.user_id },
    );
    signing = signIn({ access_key: person.key });
    await until(async () => (await locksAwaited(api.db)) > 0);
  });
  expect(refusal((await signing) as Answer)).toMatchObject({
    status: 403,
    code: 'permission_denied',
  });
});

test('sessions of one key of the platform end none of another', async () => {
  const [one, other] = [await platformKey(api.db), await platformKey(api.db)];
  const first = (await signIn({ access_key: one })).body;
  const old = (await signIn({ access_key: other })).body;
  for (let n = 0; n < 50; n += 1) {
    await many(api.db, 'delete from sign_in_tries');
    expect((await signIn({ access_key: other })).status).toBe(201);
  }
  expect((await me(old.key)).status).toBe(401);
  expect((await me(first.key)).status).toBe(200);
});

test('what is done in a session of a key is done by the key, however long ago the session ended', async () => {
  const platform = await platformKey(api.db);
  const { key, id } = (await signIn({ access_key: platform })).body;
  const body = { org_id: tenant.org_id, amount: 7, target_wallet_owner_type: 'organization' };
  const credited = await api.call('post', '/v1/admin/wallets/credit', { key, body });
  expect(credited.status).toBe(201);
  const [own] = await many<{ id: string }>(
    api.db,
    'select k.id from tokens s join tokens k on k.id = s.made_with where s.id = :id',
    { id },
  );
  const path = `/v1/audit-log?org_id=${tenant.org_id}&actor=${own?.id}`;
  const { audit_log } = (await api.call('get', path, { key: platform })).body;
  expect(audit_log[0]).toMatchObject({ actor: { id: own?.id, type: 'platform' } });
  const ledger = await many(api.db, 'select actor from wallet_transactions where id = :id', {
    id: credited.body.transaction.id,
  });
  expect(ledger).toEqual([{ actor: own?.id }]);
});

test('no key and no session of a person who has left is good, whatever became of its row', async () => {
  const person = await makePerson(api, tenant, 'owner');
  const service = await makeKey(api.db, tenant.org_id, { scopes: ['org:members'] });
  const { key } = (await signIn({ access_key: person.key })).body;
  expect((await me(key)).status).toBe(200);
  await many(
    api.db,
    `update memberships set archived_at = clock_timestamp()
     where org_id = :org_id and user_id = :user_id`,
    { org_id: tenant.org_id, user_id: person.user_id },
  );
  for (const one of [key, person.key]) expect((await me(one)).status).toBe(401);
  // Keys that stand for nobody need no member, in an organization or of the platform.
  const path = `/v1/organizations/${tenant.org_id}/members`;
  expect((await api.call('get', path, { key: service })).status).toBe(200);
  const admin = await platformKey(api.db);
  expect((await api.call('get', '/v1/admin/issuers', { key: admin })).status).toBe(200);
});

test('a sign-in by code that PostgreSQL undoes asks the provider once, and is made with its answer', async () => {
  const { idp, issuer_id } = world;
  const fails = async (times: number) => {
    await many(api.db, `select setval('fails_left', :times)`, { times });
    await many(api.db, 'delete from sign_in_tries');
    const { nonce, ...grant } = await idp.authorize('nina');
    return api.call('post', '/v1/sessions', { body: { issuer_id, nonce, ...grant } });
  };
  // A sequence counts down whatever is undone.
  await many(
    api.db,
    `create sequence fails_left increment -1 minvalue 0 maxvalue 1000;
     create function fail_sometimes() returns trigger language plpgsql as $$ begin
       if (select last_value from fails_left) > 1 and nextval('fails_left') > 0 then
         raise exception 'undone' using errcode = '40001';
       end if;
       return new;
     end $$;
     create trigger fail_sometimes before insert on tokens for each row execute function fail_sometimes()`,
  );
  expect((await fails(3)).status).toBe(201);
  const busy = await fails(100);
  expect(refusal(busy)).toMatchObject({ status: 503, code: 'unavailable' });
  expect(busy.headers['retry-after']).toBe('1');
  await many(api.db, 'drop trigger fail_sometimes on tokens');
});

test('a try is counted before its body is read, whatever that is', async () => {
  const wrong = { body: '{', headers: { 'content-type': 'application/json' } };
  for (let n = 0; n < 10; n += 1)
    expect(refusal(await api.call('post', '/v1/sessions', wrong))).toMatchObject({ status: 400 });
  for (const given of [wrong, { body: { access_key: tenant.member_key } }])
    expect(refusal(await api.call('post', '/v1/sessions', given))).toMatchObject({
      status: 429,
      code: 'rate_limit_exceeded',
    });
});

test('a sign-in has few members, and a long token', async () => {
  const many_members = Object.fromEntries(Array.from({ length: 60 }, (_, n) => [`m${n}`, n]));
  expect(refusal(await signIn(many_members))).toMatchObject({
    status: 413,
    code: 'payload_too_large',
  });
  const long = await signIn({ id_token: 'x'.repeat(900_000), nonce: 'nonce of mine' });
  expect(refusal(long)).toMatchObject({ status: 422, param: 'id_token' });
});
