import { request } from 'undici';
import { people } from '../../sandbox/identity/people';
import { type IdentityProvider, startIdentityProvider } from '../support/identity/provider';

let idp: IdentityProvider;

beforeAll(async () => {
  idp = await startIdentityProvider('team_of_the_demo');
});

afterAll(() => idp.close());

function claimsOf(jwt: string): Record<string, unknown> {
  return JSON.parse(Buffer.from(jwt.split('.')[1] as string, 'base64url').toString());
}

test("an id token says who a person is, and an access token is the gateway's, with the team of the group", async () => {
  const { id_token, access_token, nonce } = await idp.tokens('nina');
  expect(claimsOf(id_token)).toMatchObject({
    iss: idp.issuer,
    aud: 'svc-console',
    sub: 'nina',
    nonce,
    email: 'nina@demo.example',
    email_verified: true,
    name: 'Nina New',
    groups: ['research'],
  });
  expect(claimsOf(access_token)).toMatchObject({
    iss: idp.issuer,
    aud: 'svc-gateway',
    sub: 'nina',
    kt_team_id: 'team_of_the_demo',
  });
  expect(claimsOf((await idp.tokens('fay')).access_token)).not.toHaveProperty('kt_team_id');
});

test('without a login_hint a page shows the people, and a click signs one in', async () => {
  const query = new URLSearchParams({
    client_id: 'svc-console',
    response_type: 'code',
    redirect_uri: 'http://127.0.0.1:7777/callback',
    scope: 'openid',
    code_challenge: 'E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM',
    code_challenge_method: 'S256',
  });
  const begun = await request(`${idp.issuer}/auth?${query}`);
  await begun.body.dump();
  const at = new URL(String(begun.headers.location), idp.issuer).toString();
  const cookie = [begun.headers['set-cookie'] ?? []]
    .flat()
    .map((one) => one.split(';')[0])
    .join('; ');
  const page = await request(at, { headers: { cookie } });
  const text = await page.body.text();
  expect(page.statusCode).toBe(200);
  for (const { name } of people) expect(text).toContain(name);
  const headers = { cookie, 'content-type': 'application/x-www-form-urlencoded' };
  const clicked = await request(at, { method: 'POST', headers, body: 'login=lena' });
  await clicked.body.dump();
  expect([clicked.statusCode, String(clicked.headers.location)]).toEqual([
    303,
    expect.stringContaining('/auth/'),
  ]);
});
