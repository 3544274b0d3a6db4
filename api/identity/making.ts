import { decodeJwt } from 'jose';
import { z } from 'zod';
import * as auditEvents from '../../domain/audit-events';
import { AppError, tooMany } from '../../domain/errors';
import * as issuers from '../../domain/people/issuers';
import { use, useIdToken } from '../../domain/people/one-time-codes';
import { rolePermissions } from '../../domain/people/roles';
import * as sessions from '../../domain/people/sessions';
import { signIn } from '../../domain/people/sign-in';
import { type Db, maybe, withRetry } from '../../domain/sql';
import { addressOf, counted } from '../../runtime/client-address';
import { bearerOf } from '../http/access';
import { id } from '../http/fields';
import type { Ctx } from '../http/route';

// The ways to sign in. Each try is counted by its address before its body is read.

const TRIES_A_MINUTE = 10;
/** A sign-in has a dozen of fields, and none that holds others. */
export const MEMBERS_MAX = 50;
/** Room for ten thousand groups, which are then refused in words. */
const TOKEN_MAX = 1_000_000;

const text = z.string().min(1).max(2_000);

export const signInBody = z
  .strictObject({
    access_key: text.optional().describe('A key of a person; or send it as bearer.'),
    one_time_code: text.optional().describe('From npm run admin -- sign-in.'),
    id_token: z.string().min(1).max(TOKEN_MAX).optional(),
    code: text.optional().describe('The authorization code of the identity provider.'),
    issuer_id: id.optional().describe('Which identity provider the code is of.'),
    code_verifier: z.string().min(43).max(128).optional(),
    redirect_uri: text.optional(),
    nonce: z.string().min(8).max(200).optional(),
    invitation: text.optional(),
    org_id: id.optional(),
  })
  .superRefine(oneWay);

type SignIn = z.infer<typeof signInBody>;

const ways = ['access_key', 'one_time_code', 'id_token', 'code'] as const;
// What each way needs, and what else it may bring.
const needs: Record<(typeof ways)[number], readonly (keyof SignIn)[]> = {
  access_key: [],
  one_time_code: [],
  id_token: ['nonce'],
  code: ['issuer_id', 'code_verifier', 'redirect_uri', 'nonce'],
};
const choices: readonly (keyof SignIn)[] = ['invitation', 'org_id'];

function oneWay(given: Record<string, unknown>, check: z.RefinementCtx): void {
  const [way, second] = ways.filter((one) => given[one] !== undefined);
  const refuse = (field: string, message: string) =>
    check.addIssue({ code: 'custom', path: [field], message });
  if (second !== undefined) {
    refuse(second, `goes without ${way}: sign in one way`);
    return;
  }
  const needed = way === undefined ? [] : needs[way];
  const missing = needed.find((field) => given[field] === undefined);
  if (missing !== undefined) {
    refuse(missing, `is needed with ${way}`);
    return;
  }
  const allowed = [way, ...needed, ...(needed.length > 0 ? choices : ['org_id'])];
  const excess = Object.keys(given).find((field) => !allowed.includes(field));
  if (excess !== undefined) refuse(excess, `has no meaning with ${way ?? 'a bearer'}`);
}

/** Makes a session for whoever proves to be somebody. */
export async function makeSession(ctx: Ctx, input: SignIn) {
  const bearer = ways.some((way) => input[way] !== undefined) ? undefined : bearerOf(ctx.http);
  const access_key = input.access_key ?? bearer;
  if (access_key === undefined && ways.every((way) => input[way] === undefined))
    throw new AppError(
      'invalid_field',
      'Sign in by access_key, one_time_code, id_token, or code. An access key may come as bearer.',
      { param: 'access_key' },
    );
  const { one_time_code } = input;
  if (access_key !== undefined) return withRetry(() => byKey(ctx, access_key, input));
  if (one_time_code !== undefined) return withRetry(() => byCode(ctx, one_time_code, input));
  return byIssuer(ctx, input);
}

/** Throws 429 for an address that has tried too often. Counts it, whatever becomes of the try. */
export async function countTry({ db, http, trusted_proxies }: Ctx): Promise<void> {
  const at = { header: 'x-forwarded-for', trusted: trusted_proxies };
  const address = counted(addressOf(http.req, at));
  const row = await withRetry(() =>
    maybe<{ next_at: Date | null }>(db, 'select try_sign_in(:address, :most) as next_at', {
      address,
      most: TRIES_A_MINUTE,
    }),
  );
  if (!row?.next_at) return;
  throw tooMany(
    'rate_limit_exceeded',
    `From one address ${TRIES_A_MINUTE} tries a minute are taken. Sign in again after Retry-After.`,
    { limit: TRIES_A_MINUTE, resets_at: row.next_at },
  );
}

async function byKey(ctx: Ctx, access_key: string, { org_id: named }: SignIn) {
  const token = await ctx.keys.check(access_key);
  const { org_id, user_id, scopes, token_type, purpose } = token;
  if (token_type === 'gateway')
    throw forbidden('A gateway key is for model traffic; sign in with an access key.');
  if (purpose === 'session')
    throw forbidden('This is the key of a session; a session opens no other.');
  if (scopes.includes('control_plane'))
    throw forbidden('A key of control_plane stands for gateways, which have no session.');
  if (named === undefined && org_id === null && scopes.includes('platform:admin'))
    return inTransaction(ctx, { user_id: token.id, key_id: token.id }, (trx) =>
      made(trx, { org_id: null, user_id: null, scopes, key: token }),
    );
  if (org_id === null || user_id === null)
    throw forbidden('This key stands for nobody. Sign in with a key that names its person.');
  if (named !== undefined && named !== org_id)
    throw new AppError('not_found', 'No organization was found under this id.', {
      param: 'org_id',
    });
  return inTransaction(ctx, { user_id, key_id: token.id }, (trx) =>
    made(trx, { org_id, user_id, scopes, key: token }),
  );
}

function byCode(ctx: Ctx, code: string, { org_id: named }: SignIn) {
  return ctx.db.transaction(async (trx) => {
    const { org_id, user_id } = await use(trx, code, 'session');
    if (named !== undefined && named !== org_id)
      throw new AppError('not_found', 'No organization was found under this id.', {
        param: 'org_id',
      });
    await actAs(trx, ctx, { user_id });
    return made(trx, { org_id, user_id, scopes: rolePermissions.owner });
  });
}

/** The provider takes a code once, so what it has answered is used for each try of ours. */
async function byIssuer(ctx: Ctx, input: SignIn) {
  const { nonce = '', code, code_verifier = '', redirect_uri = '', issuer_id = '' } = input;
  const issuer =
    code === undefined
      ? await issuerOf(ctx.db, input.id_token ?? '')
      : await issuers.get(ctx.db, issuer_id);
  const id_token =
    code === undefined
      ? (input.id_token ?? '')
      : await ctx.id_tokens.exchange(issuer, { code, code_verifier, redirect_uri });
  const claims = await ctx.id_tokens.verify(issuer, id_token, nonce);
  return withRetry(() =>
    ctx.db.transaction(async (trx) => {
      await actAs(trx, ctx, { user_id: issuer.id });
      await useIdToken(trx, id_token);
      const person = await signIn(trx, issuer, claims, input);
      await actAs(trx, ctx, person);
      return made(trx, { ...person, scopes: rolePermissions.owner, issuer_id: issuer.id });
    }),
  );
}

/** The issuer that a token says it is of; whether that is true, its signature shows. */
async function issuerOf(db: Db, id_token: string): Promise<issuers.SealedIssuer> {
  const { iss, aud } = claimsOf(id_token);
  const clients = Array.isArray(aud) ? aud : [aud];
  const named = typeof iss === 'string' ? await issuers.named(db, iss) : [];
  const refused = (what: string) =>
    new AppError('invalid_credential', `This id token is refused: ${what}.`, { param: 'id_token' });
  if (named.length === 0) throw refused('its iss is not a configured issuer');
  const found = named.find(({ client_id }) => clients.includes(client_id));
  if (found === undefined) throw refused('its aud is not our client there');
  return found;
}

function claimsOf(id_token: string): Record<string, unknown> {
  try {
    return decodeJwt(id_token);
  } catch {
    throw new AppError('invalid_field', 'id_token is no JWT: three parts with dots between.', {
      param: 'id_token',
    });
  }
}

/** The session, with what it may do now. */
async function made(trx: Db, session: sessions.NewSession) {
  const scopes = await scopesOf(trx, session);
  const { key, ...row } = await sessions.create(trx, session);
  return { ...row, is_current: true, scopes, key };
}

/** What a session may do: a person's role cuts it, a platform key is as it is. */
async function scopesOf(trx: Db, session: sessions.NewSession) {
  if (session.org_id === null) return session.scopes;
  const { org_id, user_id } = session;
  const role = await sessions.holdRole(trx, { org_id, user_id });
  if (role === undefined)
    throw forbidden('This person is not a member of the organization any more.');
  return session.scopes.filter((one) => rolePermissions[role].includes(one));
}

function inTransaction<T>(
  ctx: Ctx,
  by: { user_id: string; key_id?: string },
  work: (trx: Db) => Promise<T>,
): Promise<T> {
  return ctx.db.transaction(async (trx) => {
    await actAs(trx, ctx, by);
    return work(trx);
  });
}

function actAs(
  trx: Db,
  { request_id }: Ctx,
  { user_id, key_id }: { user_id: string; key_id?: string },
): Promise<void> {
  return auditEvents.actAs(trx, { actor: user_id, key_id, request_id });
}

function forbidden(message: string): AppError {
  return new AppError('permission_denied', message);
}
