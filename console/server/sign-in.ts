import { createHash, randomBytes } from 'node:crypto';
import type { Context } from 'koa';
import { AppError } from '../../domain/errors';
import { endChatKeys } from './chat';
import { type Forwarding, headersOf, readObject } from './forward';
import { type Choice, type Session, signedOut } from './session';

// Signing in and out. The API makes the key of a session; the browser never sees it.

export interface SignInPlaces extends Forwarding {
  /** The console's own origin: CONSOLE_ORIGIN. */
  origin: string;
}

/** POST /api/session: by `access_key` or `one_time_code`, of `org_id` if it is needed. */
export async function signIn(ctx: Context, places: SignInPlaces): Promise<void> {
  const { access_key, one_time_code, org_id, ...rest } = await readObject(ctx);
  const [unknown] = Object.keys(rest);
  if (unknown !== undefined)
    throw new AppError('unknown_field', `${unknown} is no field of a sign-in.`, { param: unknown });
  await places.api.requireFit();
  const given = { access_key, one_time_code, org_id };
  const session = await sessionOf(ctx, places, given);
  await places.cookies.write(ctx, session);
  places.cookies.clearChoice(ctx);
  // The one before; it is the request's cookie that says which. Whoever has signed in is.
  await endCurrent(ctx, places).catch(() => undefined);
  ctx.status = 204;
}

/**
 * GET /api/session/issuers?q=: the identity providers that a person may sign in by, of many those
 * with these words; `has_more` says that there are others.
 */
export async function issuers(ctx: Context, { api, trusted }: SignInPlaces): Promise<void> {
  await api.requireFit();
  const { q } = ctx.query;
  const is_search = typeof q === 'string' && /[\p{L}\p{N}]/u.test(q);
  const { issuers, has_more } = await api.ask({
    method: 'GET',
    path: is_search ? `/v1/issuers?q=${encodeURIComponent(q)}` : '/v1/issuers',
    headers: headersOf(ctx, trusted),
  });
  const all = issuers as { id: string; name: string; authorization_url: string | null }[];
  const usable = all.filter(({ authorization_url }) => authorization_url !== null);
  ctx.body = {
    issuers: usable.map(({ id, name }) => ({ id, name })),
    has_more: has_more === true,
  };
}

/** POST /api/session/oidc `{issuer_id, org_id, invitation, next}`: where the browser is to go. */
export async function beginOidc(ctx: Context, places: SignInPlaces): Promise<void> {
  const { issuer_id, org_id = null, invitation, next = '/' } = await readObject(ctx);
  const { api, trusted, cookies, origin } = places;
  requireInvitation(invitation);
  await api.requireFit();
  const { issuers } = await api.ask({
    method: 'GET',
    path: `/v1/issuers?id=${encodeURIComponent(String(issuer_id || 'none'))}`,
    headers: headersOf(ctx, trusted),
  });
  const all = issuers as {
    id: string;
    issuer: string;
    client_id: string;
    authorization_url: string | null;
  }[];
  const found = all.find(({ id }) => id === issuer_id);
  if (!found?.authorization_url)
    throw new AppError('not_found', 'No identity provider was found under this id.', {
      param: 'issuer_id',
    });
  // The way back has no Strict cookie, so what it holds ends here.
  await endCurrent(ctx, places);
  cookies.clear(ctx);
  const [state, nonce, code_verifier] = [secret(), secret(), secret()];
  await cookies.beginSignIn(ctx, {
    issuer_id: found.id,
    issuer: found.issuer,
    state,
    nonce,
    code_verifier,
    org_id: typeof org_id === 'string' && /^[\w-]{1,64}$/.test(org_id) ? org_id : null,
    invitation,
    next: pageOf(next),
  });
  const url = new URL(found.authorization_url);
  const asked = {
    client_id: found.client_id,
    response_type: 'code',
    redirect_uri: `${origin}/callback`,
    scope: 'openid email profile groups',
    state,
    nonce,
    code_challenge: createHash('sha256').update(code_verifier).digest('base64url'),
    code_challenge_method: 'S256',
  };
  for (const [name, value] of Object.entries(asked)) url.searchParams.set(name, value);
  ctx.body = { url: url.href };
}

/** GET /callback: the person is back from the identity provider. */
export async function endOidc(ctx: Context, places: SignInPlaces): Promise<void> {
  const { state, code, iss } = ctx.query;
  const kept = await places.cookies.endSignIn(ctx);
  // By a code and a field, whose words the page has: anybody may make a link to it.
  const failed = (code: string, param?: string) => {
    const invited = kept?.invitation === undefined ? undefined : 'yes';
    const said = Object.entries({ failed: code, param, invited });
    const given = said.filter((one): one is [string, string] => one[1] !== undefined);
    ctx.redirect(`/login?${new URLSearchParams(given)}`);
  };
  if (kept === undefined || typeof state !== 'string' || state !== kept.state)
    return failed('other_browser');
  // A provider that answers in another's name (RFC 9207).
  if (iss !== undefined && iss !== kept.issuer) return failed('other_provider');
  if (typeof code !== 'string') return failed('provider_refused');
  const { issuer_id, nonce, code_verifier, org_id, invitation } = kept;
  const redirect_uri = `${places.origin}/callback`;
  try {
    await places.api.requireFit();
    const session = await sessionOf(ctx, places, {
      code,
      issuer_id,
      nonce,
      code_verifier,
      redirect_uri,
      ...(org_id === null ? {} : { org_id }),
      ...(invitation === undefined ? {} : { invitation }),
    });
    await places.cookies.write(ctx, session);
    places.cookies.clearChoice(ctx);
    ctx.redirect(kept.next);
  } catch (refusal) {
    if (!(refusal instanceof AppError)) throw refusal;
    const organizations = offered(refusal);
    if (organizations !== undefined) {
      await places.cookies.offer(ctx, { issuer_id, organizations, next: kept.next });
    }
    failed(refusal.code, refusal.details.param);
  }
}

/** The organizations that a sign-in may name; undefined if it is refused for something else. */
function offered({ code, details }: AppError): Choice['organizations'] | undefined {
  const given = details.extra?.organizations;
  if (code !== 'org_required' || !Array.isArray(given)) return undefined;
  return given.map(({ org_id, name }) => ({ org_id: String(org_id), name: String(name) }));
}

/** GET /api/session/organizations: those that the last sign-in of this browser may name. */
export async function choices(ctx: Context, { cookies }: SignInPlaces): Promise<void> {
  ctx.body = (await cookies.readChoice(ctx)) ?? {
    issuer_id: null,
    organizations: [],
    has_more: false,
    next: '/',
  };
}

/** DELETE /api/session: ends the session at the API too, so that a copy of the cookie is dead. */
export async function signOut(ctx: Context, places: SignInPlaces): Promise<void> {
  try {
    await endCurrent(ctx, places);
  } finally {
    // Whatever the API says, this browser is signed out.
    places.cookies.clear(ctx);
  }
  ctx.status = 204;
}

/** PUT /api/session/org `{org_id}`: the organization that an operator looks at; null for none. */
export async function chooseOrg(ctx: Context, { cookies }: SignInPlaces): Promise<void> {
  const session = await cookies.read(ctx);
  if (session === undefined) throw signedOut();
  const { org_id = null } = await readObject(ctx);
  if (session.user_id !== null || (org_id !== null && typeof org_id !== 'string'))
    throw new AppError('invalid_field', 'Only operators choose an organization; others sign in.', {
      param: 'org_id',
    });
  await cookies.write(ctx, { ...session, org_id });
  ctx.status = 204;
}

/** GET /api/session: what the cookie says, without asking the API. */
export async function current(ctx: Context, { cookies }: SignInPlaces): Promise<void> {
  const session = await cookies.read(ctx);
  ctx.body =
    session === undefined
      ? { is_signed_in: false }
      : {
          is_signed_in: true,
          is_operator: session.user_id === null,
          org_id: session.org_id,
          expires_at: new Date(session.expires_at).toISOString(),
        };
}

async function sessionOf(
  ctx: Context,
  { api, trusted }: SignInPlaces,
  given: Record<string, unknown>,
): Promise<Session> {
  const made = await api.ask({
    method: 'POST',
    path: '/v1/sessions',
    headers: { ...headersOf(ctx, trusted), 'content-type': 'application/json' },
    body: JSON.stringify(given),
  });
  return {
    key: String(made.key),
    user_id: made.user_id === null ? null : String(made.user_id),
    org_id: null,
    own_org_id: typeof made.org_id === 'string' ? made.org_id : null,
    expires_at: Date.parse(String(made.expires_at)),
  };
}

/** Ends what the cookie holds, if it holds something that lives. */
async function endCurrent(ctx: Context, places: SignInPlaces): Promise<void> {
  const { api, cookies, trusted } = places;
  const session = await cookies.read(ctx);
  if (session === undefined) return;
  const headers = { ...headersOf(ctx, trusted), authorization: `Bearer ${session.key}` };
  try {
    await endChatKeys(ctx, places, session);
  } finally {
    const path = '/v1/sessions/current';
    await api.ask({ method: 'DELETE', path, headers }).catch((error) => {
      // It has ended already.
      if (!(error instanceof AppError) || ![401, 404].includes(error.status)) throw error;
    });
  }
}

/** It is kept in a cookie, which has no room for what is none. */
function requireInvitation(given: unknown): asserts given is string | undefined {
  if (given === undefined) return;
  if (typeof given === 'string' && /^svc_otc_[\w-]{1,200}$/.test(given)) return;
  throw new AppError('invalid_field', 'This is no invitation: it begins with svc_otc_.', {
    param: 'invitation',
  });
}

/** A page of the console, never an address elsewhere. */
function pageOf(next: unknown): string {
  return typeof next === 'string' && /^\/(?![/\\])[\x21-\x7e]{0,1000}$/.test(next) ? next : '/';
}

function secret(): string {
  return randomBytes(32).toString('base64url');
}
