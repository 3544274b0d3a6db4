import { randomUUID } from 'node:crypto';
import { request } from 'undici';
import * as members from '../../../domain/people/members';
import * as organizations from '../../../domain/people/organizations';
import { many } from '../../../domain/sql';
import { parseSettings } from '../../../gateway/config/settings';
import { cpuMsOf } from '../../support/cpu';
import { chat, gatewayKey, lastCharge, openWorld, post, type World } from '../../support/gateway';
import {
  gateway_audience,
  type IdentityProvider,
  issuerFor,
  startIdentityProvider,
} from '../../support/identity/provider';
import { issueKey, platformKey } from '../../support/keys';
import { until } from '../../support/until';

// A gateway that takes keys and the tokens of a real identity provider side by side.

const path = '/v1/chat/completions';
let world: World;
let idp: IdentityProvider;
let team_id: string;
let user_id: string;
let issuer_id: string;
let url: string;
let identity: object;

beforeAll(async () => {
  world = await openWorld();
  const { org_id } = world.org;
  const { db } = world.api;
  team_id = (await organizations.createTeam(db, org_id, 'Research')).id;
  idp = await startIdentityProvider(team_id);
  const made = await world.api.call('post', '/v1/admin/issuers', {
    key: await platformKey(db),
    body: issuerFor(idp, { org_id, team_id }),
  });
  issuer_id = made.body.id;
  // Nobody has entered her: her group takes her into the team.
  const grant = await idp.authorize('nina');
  const session = await world.api.call('post', '/v1/sessions', { body: { issuer_id, ...grant } });
  expect(session.status).toBe(201);
  user_id = session.body.user_id;
  identity = {
    modes: ['gateway_key', 'signed_assertion'],
    org_id,
    issuer: idp.issuer,
    audience: gateway_audience,
    jwks_url: idp.jwks_url,
    subject: 'bound',
  };
  ({ url } = await world.openGateway({ settings: { identity } }));
});

afterAll(async () => {
  await idp.close();
  await world.close();
});

/** A new member, for whom a subject stands. */
async function bind(subject: string): Promise<string> {
  const { org_id } = world.org;
  const person = { name: subject, role: 'member' as const };
  const member = await members.add(world.api.db, org_id, person);
  await many(
    world.api.db,
    'insert into identities (issuer_id, org_id, subject, user_id) values (:issuer_id, :org_id, :subject, :user_id)',
    { issuer_id, org_id, subject, user_id: member.user_id },
  );
  return member.user_id;
}

const now = () => Math.floor(Date.now() / 1_000);

/** An access token of any claims, with the provider's own signature. */
function token(claims: Record<string, unknown>): Promise<string> {
  const plain = { iss: idp.issuer, aud: gateway_audience, iat: now(), exp: now() + 300 };
  return idp.sign({ ...plain, ...claims }, { typ: 'at+jwt' });
}

async function eventOf(label: string): Promise<Record<string, unknown>> {
  let rows: { payload: Record<string, unknown> }[] = [];
  await until(async () => {
    rows = await many(
      world.api.db,
      `select payload from events where type = 'request.completed' and trace_label = :label`,
      { label },
    );
    return rows.length > 0;
  });
  return rows[0]?.payload ?? {};
}

test('a token of the identity provider as it is calls and pays as the bound user in its team; a key beside it as ever', async () => {
  const { access_token } = await idp.tokens('nina');
  const [by_token, by_key] = [randomUUID(), randomUUID()];
  const first = await post(url + path, access_token, chat('Hello'), { 'x-request-id': by_token });
  expect([first.status, first.text]).toEqual([200, expect.any(String)]);
  expect(await eventOf(by_token)).toMatchObject({
    identity_proof_method: 'signed_assertion',
    identity_context: { user_id, key_id: null, team_id },
  });
  const second = await post(url + path, world.key, chat('Hello'), { 'x-request-id': by_key });
  expect(second.status).toBe(200);
  expect(await eventOf(by_key)).toMatchObject({ identity_proof_method: 'gateway_key' });
  await lastCharge(world, world.org.org_id);
});

test('GET /v1/key tells a person whom a token names what they may spend', async () => {
  const { access_token } = await idp.tokens('nina');
  const answer = await request(`${url}/v1/key`, {
    headers: { authorization: `Bearer ${access_token}` },
  });
  expect([answer.statusCode, await answer.body.json()]).toMatchObject([
    200,
    {
      ...{ id: null, user_id, team_id, identity_proof_method: 'signed_assertion' },
      wallet: { owner_type: 'organization', balance: expect.any(Number) },
    },
  ]);
});

test('a subject may have 255 characters, as at the sign-in', async () => {
  const statuses = [];
  for (const length of [201, 255, 256]) {
    const sub = randomUUID().padEnd(length, 'x');
    await bind(sub);
    statuses.push((await post(url + path, await token({ sub }), chat('Hello'))).status);
  }
  expect(statuses).toEqual([200, 200, 401]);
});

test('a proof that fails is 401, and never tried as the other or as a header', async () => {
  const key = await gatewayKey(world.api, world.org.org_id);
  const good = await token({ sub: 'nina' });
  const headers = { 'x-user-id': user_id, 'x-team-id': team_id };
  const refused: [string | undefined, Record<string, string>][] = [
    [undefined, {}],
    ['nonsense', {}],
    [`${good.slice(0, -4)}AAAA`, { 'x-api-key': key }],
    [`${key.slice(0, -2)}00`, {}],
    ['svc_ak_nothing', {}],
    ['nonsense', { 'x-api-key': key }],
    ['svc_ak_bad', { 'x-api-key': key }],
    ['svc_gk_bad', { 'x-api-key': key }],
  ];
  for (const [bearer, more] of refused) {
    const answer = await post(url + path, bearer, chat('Hello'), { ...headers, ...more });
    expect([bearer, answer.status]).toEqual([bearer, 401]);
  }
  expect((await post(url + path, undefined, chat('Hello'), { 'x-api-key': good })).status).toBe(
    200,
  );
});

test('only the tokens of its own audience are taken: no id token, none of another product, none that is old', async () => {
  const { id_token } = await idp.tokens('nina');
  const refused = [
    id_token,
    await token({ sub: 'nina', aud: 'svc-console' }),
    await token({ sub: 'nina', iss: 'https://evil.example' }),
    await token({ sub: 'nina', exp: now() - 60 }),
    await token({}),
  ];
  for (const jwt of refused) expect((await post(url + path, jwt, chat('Hello'))).status).toBe(401);
});

test('a sub that is bound to nobody is 403, also if it is the id of a user', async () => {
  for (const sub of ['olaf', user_id]) {
    const answer = await post(url + path, await token({ sub }), chat('Hello'));
    expect([sub, answer.status]).toEqual([sub, 403]);
    expect(answer.text).toContain('permission_denied');
  }
});

test('a person draws on no team that they are not in, whatever the token says', async () => {
  const other = await organizations.createTeam(world.api.db, world.org.org_id, randomUUID());
  const named = await token({ sub: 'nina', kt_team_id: other.id });
  const answer = await post(url + path, named, chat('Hello'));
  expect(JSON.parse(answer.text).error).toMatchObject({
    code: 'not_team_member',
    param: 'kt_team_id',
  });
  expect(answer.status).toBe(403);
});

test('the key of an assertion is a living one of its person, else 403', async () => {
  const { db } = world.api;
  const { org_id } = world.org;
  const gateway = { token_type: 'gateway' } as const;
  const own = await issueKey(db, org_id, { ...gateway, user_id, allowed_models: ['gpt-4o'] });
  const stranger = await bind(randomUUID());
  const refused = {
    'of another person': await issueKey(db, org_id, { ...gateway, user_id: stranger }),
    'of a team': await issueKey(db, org_id, { ...gateway, team_id }),
    'an access key': await issueKey(db, org_id, { user_id }),
    'of nobody': { id: 'key_of_nobody' },
  };
  for (const [kind, { id }] of Object.entries(refused)) {
    const jwt = await token({ sub: 'nina', kt_key_id: id });
    const answer = await post(url + path, jwt, chat('Hello'));
    expect([kind, answer.status]).toEqual([kind, 403]);
    expect(answer.text).toContain('kt_key_id');
  }
  const jwt = await token({ sub: 'nina', kt_key_id: own.id });
  expect((await post(url + path, jwt, chat('Hello'))).text).toContain('model_not_allowed');
  expect((await post(url + path, jwt, chat('Hello', { model: 'gpt-4o' }))).status).toBe(200);
  // The gateway remembers the assertion; the ledger knows that its key has ended.
  await many(db, 'update tokens set revoked_at = clock_timestamp() where id = :id', { id: own.id });
  const ended = await post(url + path, jwt, chat('Hello', { model: 'gpt-4o' }));
  expect([ended.status, JSON.parse(ended.text).error.code]).toEqual([403, 'permission_denied']);
});

test('a subject that the platform bound to one and the organization to another is the second', async () => {
  const here = await bind('two-fold');
  const elsewhere = await bind('other');
  await many(
    world.api.db,
    `update users set issuer = :issuer, subject = 'two-fold' where id = :elsewhere`,
    { issuer: idp.issuer, elsewhere },
  );
  const label = randomUUID();
  const headers = { 'x-request-id': label };
  const jwt = await token({ sub: 'two-fold' });
  expect((await post(url + path, jwt, chat('Hello'), headers)).status).toBe(200);
  expect(await eventOf(label)).toMatchObject({ identity_context: { user_id: here } });
});

test('after its first use a token costs the gateway at most a tenth of a millisecond', async () => {
  const gateway = await world.openGateway({ settings: { identity } });
  const { identifier } = gateway.gateway.snapshot;
  const head = {
    headers: { authorization: `Bearer ${(await idp.tokens('nina')).access_token}` },
    socket: { remoteAddress: '127.0.0.1' },
  };
  await identifier.who(head);
  const count = 2_000;
  const cost_ms = await cpuMsOf(() => {
    for (let n = 0; n < count; n += 1)
      if (identifier.who(head) instanceof Promise) throw new Error('It was asked for again.');
  });
  expect(cost_ms / count).toBeLessThan(0.1);
});

test.each([
  [{ mode: 'signed_assertion', org_id: 'org' }, 'identity.jwks_url: is needed'],
  [{ mode: 'header_soft' }, 'identity.org_id: is needed'],
  [{ mode: 'gateway_key', issuer: 'https://id.example' }, 'identity.issuer: has no meaning'],
  [{ mode: 'none' }, 'identity.mode:'],
  [{ modes: ['gateway_key', 'header_soft'], org_id: 'o' }, 'header_soft only alone'],
  [{ modes: ['header_soft', 'signed_assertion'], org_id: 'o' }, 'header_soft only alone'],
  [{ modes: ['gateway_key', 'gateway_key'] }, 'names a proof twice'],
  [{ modes: [] }, 'identity.modes'],
  [{ modes: ['gateway_key'], mode: 'gateway_key' }, 'takes the place of mode'],
  [{ modes: ['gateway_key', 'signed_assertion'], org_id: 'o' }, 'identity.jwks_url: is needed'],
  [{ modes: ['gateway_key'], subject: 'bound' }, 'identity.subject: has no meaning'],
  [{ mode: 'signed_assertion', subject: 'email' }, 'identity.subject'],
  [
    {
      mode: 'signed_assertion',
      org_id: 'o',
      issuer: 'i',
      audience: 'a',
      jwks_url: 'http://id.example/k',
    },
    'identity.jwks_url: must begin with https',
  ],
  [
    { mode: 'signed_assertion', org_id: 'o', issuer: 'i', audience: 'a', jwks_url: 'zz' },
    'identity.jwks_url: must be an address',
  ],
])('the identity section %j is a configuration error', (given, words) => {
  const target = {
    id: 'a',
    provider: 'openai',
    shape: 'openai',
    base_url: 'http://127.0.0.1/v1',
    api_key_env: 'TEST_MODELS_KEY',
    models: ['gpt-4o'],
  };
  const text = JSON.stringify({ identity: given, providers: { targets: [target] } });
  expect(() => parseSettings(text)).toThrow(words);
});

test('modes of one proof is that proof, header_soft among them', async () => {
  const soft = { modes: ['header_soft'], org_id: world.org.org_id };
  const { url: open } = await world.openGateway({ settings: { identity: soft } });
  expect((await post(open + path, undefined, chat('Hello'))).status).toBe(200);
});
