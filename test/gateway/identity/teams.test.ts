import { randomUUID } from 'node:crypto';
import { request } from 'undici';
import * as organizations from '../../../domain/people/organizations';
import * as teams from '../../../domain/people/teams';
import { openWorld, type World } from '../../support/gateway';
import {
  gateway_audience,
  type IdentityProvider,
  issuerFor,
  startIdentityProvider,
} from '../../support/identity/provider';
import { platformKey } from '../../support/keys';

// Whom a token of an identity provider names, on routes that hold money and on those that do not.

let world: World;
let idp: IdentityProvider;
let team_id: string;
let user_id: string;
let identity: object;

beforeAll(async () => {
  world = await openWorld();
  const { org_id } = world.org;
  team_id = (await organizations.createTeam(world.api.db, org_id, 'Research')).id;
  idp = await startIdentityProvider(team_id);
  const { body } = await world.api.call('post', '/v1/admin/issuers', {
    key: await platformKey(world.api.db),
    body: issuerFor(idp, { org_id, team_id }),
  });
  const signed_in = { issuer_id: body.id, ...(await idp.authorize('nina')) };
  const session = await world.api.call('post', '/v1/sessions', { body: signed_in });
  user_id = session.body.user_id;
  identity = {
    mode: 'signed_assertion',
    org_id,
    issuer: idp.issuer,
    audience: gateway_audience,
    jwks_url: idp.jwks_url,
    subject: 'bound',
  };
});

afterAll(async () => {
  await idp.close();
  await world.close();
});

/** An access token of any claims, with the provider's own signature. */
function token(claims: Record<string, unknown>): Promise<string> {
  const now = Math.floor(Date.now() / 1_000);
  const plain = { iss: idp.issuer, aud: gateway_audience, iat: now, exp: now + 300 };
  return idp.sign({ ...plain, ...claims }, { typ: 'at+jwt' });
}

test('a team that the person is not in, or that is none, is refused on every route, and counts on no limit of it', async () => {
  const other = await organizations.createTeam(world.api.db, world.org.org_id, randomUUID());
  const { url: limited } = await world.openGateway({
    settings: {
      identity,
      rate_limits: { per_team: { rpm: 2 } },
      mcp: { servers: [{ name: 'tools', url: 'http://127.0.0.1:9/mcp' }] },
    },
  });
  const body = JSON.stringify({ model: 'gpt-4o-mini', messages: [{ role: 'user', content: 'a' }] });
  const routes = [
    ['GET', '/v1/key', undefined],
    ['GET', '/v1/models', undefined],
    ['GET', '/v1/models/gpt-4o-mini', undefined],
    ['POST', '/v1/messages/count_tokens', body],
    ['POST', '/mcp', JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/list' })],
    ['POST', '/v1/chat/completions', body],
  ] as const;
  const ask = async (jwt: string, [method, at, body]: (typeof routes)[number]) => {
    const headers = { authorization: `Bearer ${jwt}`, 'content-type': 'application/json' };
    const answer = await request(limited + at, { method, headers, ...(body ? { body } : {}) });
    return [at, answer.statusCode, await answer.body.text()];
  };
  const refused = {
    not_team_member: await token({ sub: 'nina', kt_team_id: other.id }),
    permission_denied: await token({ sub: 'nina', kt_team_id: 'team_of_nobody' }),
  };
  for (const [code, jwt] of Object.entries(refused))
    for (const route of routes)
      expect(await ask(jwt, route)).toEqual([route[1], 403, expect.stringContaining(code)]);
  // Its own people have both of the minute's calls left.
  await teams.add(world.api.db, { org_id: world.org.org_id, team_id: other.id, user_id });
  const theirs = await token({ sub: 'nina', kt_team_id: other.id });
  const statuses = [];
  for (let n = 0; n < 3; n += 1) statuses.push((await ask(theirs, routes[5]))[1]);
  expect(statuses).toEqual([200, 200, 429]);
});

test('a sub that is an id of a user names a member on every route, and a team that they are in', async () => {
  const settings = { identity: { ...identity, subject: 'user_id' } };
  const { url: by_id } = await world.openGateway({ settings });
  const other = await organizations.createTeam(world.api.db, world.org.org_id, randomUUID());
  const ask = async (claims: object) => {
    const headers = { authorization: `Bearer ${await token({ ...claims })}` };
    const answer = await request(`${by_id}/v1/models`, { headers });
    return [answer.statusCode, await answer.body.text()];
  };
  expect(await ask({ sub: user_id, kt_team_id: team_id })).toEqual([200, expect.any(String)]);
  for (const [claims, words] of [
    [{ sub: 'user_of_nobody' }, 'sub'],
    [{ sub: user_id, kt_team_id: other.id }, 'not_team_member'],
    [{ sub: user_id, kt_team_id: 'team_of_nobody' }, 'kt_team_id'],
  ] as const)
    expect([claims, ...(await ask(claims))]).toEqual([claims, 403, expect.stringContaining(words)]);
});
