import { createHash, randomBytes, randomUUID } from 'node:crypto';
import { readFileSync, rmSync } from 'node:fs';
import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { importJWK, type JWK, SignJWT } from 'jose';
import { request } from 'undici';
import { client_id, demo_domain, gateway_audience, groups } from '../../../sandbox/identity/people';
import { freePorts } from '../../../sandbox/processes/ports';
import { launch } from '../../../sandbox/processes/processes';
import { serverProgram } from '../../../sandbox/product/node-programs';
import type { Tenant } from '../api';

/** What a browser comes back with from the identity provider, and what it kept meanwhile. */
export interface CodeGrant {
  code: string;
  code_verifier: string;
  redirect_uri: string;
  nonce: string;
}

/** The sandbox's identity provider, as a process of its own. */
export interface IdentityProvider {
  issuer: string;
  jwks_url: string;
  /** Signs a person in as a browser does. */
  authorize: (login: string, client?: string) => Promise<CodeGrant>;
  /** The same, and the tokens for the code. */
  tokens: (
    login: string,
    client?: string,
  ) => Promise<{ id_token: string; access_token: string; nonce: string }>;
  /** A token of any claims, signed with the provider's own key. */
  sign: (claims: Record<string, unknown>, header?: Record<string, unknown>) => Promise<string>;
  close: () => Promise<void>;
}

export async function startIdentityProvider(team_id?: string): Promise<IdentityProvider> {
  const folder = await mkdtemp(path.join(tmpdir(), 'svc-identity-'));
  const keys_file = path.join(folder, 'keys.json');
  const [port = 0] = await freePorts(1);
  const issuer = `http://127.0.0.1:${port}`;
  const started = await launch(
    serverProgram({
      name: 'sandbox-identity',
      script: 'sandbox/identity/main.ts',
      env: {
        SANDBOX_IDENTITY_PORT: String(port),
        SANDBOX_IDENTITY_KEYS: keys_file,
        ...(team_id === undefined ? {} : { SANDBOX_IDENTITY_TEAM_ID: team_id }),
      },
      ready_url: `${issuer}/.well-known/openid-configuration`,
    }),
  );
  const authorize = (login: string, client = client_id) => signInAt(issuer, login, client);
  const [jwk] = JSON.parse(readFileSync(keys_file, 'utf8')) as [JWK];
  const key = await importJWK(jwk, 'RS256');
  return {
    issuer,
    jwks_url: `${issuer}/jwks`,
    authorize,
    async tokens(login, client = client_id) {
      const { nonce, ...grant } = await authorize(login, client);
      const form = { grant_type: 'authorization_code', client_id: client, ...grant };
      const answer = await request(`${issuer}/token`, {
        method: 'POST',
        headers: { 'content-type': 'application/x-www-form-urlencoded' },
        body: new URLSearchParams(form).toString(),
      });
      const body = (await answer.body.json()) as { id_token: string; access_token: string };
      return { ...body, nonce };
    },
    sign: (claims, header = {}) =>
      new SignJWT(claims)
        .setProtectedHeader({ alg: 'RS256', kid: jwk.kid as string, ...header })
        .sign(key),
    async close() {
      await started.stop(2_000);
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

const HOPS_MAX = 10;

/** Follows a sign-in through its redirects, with the cookies of one browser. */
async function signInAt(issuer: string, login: string, client: string): Promise<CodeGrant> {
  const code_verifier = randomBytes(32).toString('base64url');
  const redirect_uri = 'http://127.0.0.1:7777/callback';
  const nonce = randomUUID();
  const query = new URLSearchParams({
    client_id: client,
    response_type: 'code',
    redirect_uri,
    scope: 'openid email profile groups',
    code_challenge: createHash('sha256').update(code_verifier).digest('base64url'),
    code_challenge_method: 'S256',
    nonce,
    login_hint: login,
  });
  const cookies = new Map<string, string>();
  let at = `${issuer}/auth?${query}`;
  for (let hop = 0; !at.startsWith(redirect_uri); hop += 1) {
    if (hop > HOPS_MAX) throw new Error(`The sign-in goes round and round: ${at}`);
    const cookie = [...cookies].map(([name, value]) => `${name}=${value}`).join('; ');
    const answer = await request(at, { headers: { cookie } });
    const text = await answer.body.text();
    for (const set of [answer.headers['set-cookie'] ?? []].flat()) {
      const [, name = '', value = ''] = /^([^=]+)=([^;]*)/.exec(set) ?? [];
      cookies.set(name, value);
    }
    const { location } = answer.headers;
    if (typeof location !== 'string') throw new Error(`No redirect from ${at}: ${text}`);
    at = new URL(location, at).toString();
  }
  const { searchParams } = new URL(at);
  const code = searchParams.get('code');
  if (code === null) throw new Error(`No code: ${at}`);
  return { code, code_verifier, redirect_uri, nonce };
}

/** What an operator sets up for the people of the demo's domain and groups. */
export function issuerFor(
  { issuer, jwks_url }: IdentityProvider,
  { org_id, team_id }: Pick<Tenant, 'org_id' | 'team_id'>,
  more: object = {},
) {
  return {
    org_id,
    name: 'Sandbox',
    issuer,
    client_id,
    jwks_url,
    authorization_url: `${issuer}/auth`,
    token_url: `${issuer}/token`,
    email_domains: [demo_domain],
    groups_claim: 'groups',
    group_grants: [
      { group: groups.research, team_id },
      { group: groups.leads, team_id, team_role: 'admin' },
      { group: groups.finance, role: 'billing_admin' },
    ],
    ...more,
  };
}

export { client_id, gateway_audience, groups };
