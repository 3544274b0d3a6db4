import {
  createRemoteJWKSet,
  customFetch,
  errors,
  type JWTPayload,
  type JWTVerifyGetKey,
  jwtVerify,
} from 'jose';
import { AppError, isAppError } from '../domain/errors';
import { isKept } from '../domain/texts';
import { fetch } from './outgoing';

/**
 * Gives the claims of a JWT that is the issuer's, valid now, and has `exp` and `sub`; throws
 * `invalid_credential`.
 */
export type VerifyJwt = (jwt: string) => Promise<JWTPayload & { sub: string; exp: number }>;

export interface JwtIssuer {
  issuer: string;
  audience: string;
  jwks_url: string;
  /**
   * How long an unknown key id fetches nothing after a fetch, so that forged tokens cannot make us
   * ask all the time.
   */
  cooldown_ms?: number;
  /**
   * How old keys may be before they are asked for again: how long one that was withdrawn still
   * counts.
   */
  fresh_ms?: number;
}

// Signatures only: a shared secret in a key set would let every reader of it sign.
const algorithms = [
  'RS256',
  'RS384',
  'RS512',
  'PS256',
  'PS384',
  'PS512',
  'ES256',
  'ES384',
  'EdDSA',
];

/**
 * The keys of one issuer. They are fetched again when a token names an unknown one, and once they
 * are old: beside the requests, so that an issuer that is away stops nobody whose key is known.
 */
function createKeys({
  jwks_url,
  cooldown_ms = 30_000,
  fresh_ms = 600_000,
}: Omit<JwtIssuer, 'issuer' | 'audience'>): JWTVerifyGetKey {
  const keys = createRemoteJWKSet(new URL(jwks_url), {
    timeoutDuration: 2_000,
    cooldownDuration: cooldown_ms,
    cacheMaxAge: Number.POSITIVE_INFINITY,
    [customFetch]: (url, { method, headers, signal }) =>
      fetch(url, { method, headers: [...headers], signal, redirect: 'manual' }) as never,
  });
  let renew_at = performance.now() + fresh_ms;
  const renewOld = (): void => {
    if (performance.now() < renew_at) return;
    renew_at = performance.now() + Math.min(cooldown_ms, fresh_ms);
    const renewed = () => {
      renew_at = performance.now() + fresh_ms;
    };
    // The keys at hand stay good while the issuer is away.
    keys.reload().then(renewed, () => undefined);
  };
  return (header, token) => {
    renewOld();
    return keys(header, token);
  };
}

/** Verifies JWTs of one issuer with which its people call. A refusal says what is wrong. */
export function createJwtVerifier({ issuer, audience, ...from }: JwtIssuer): VerifyJwt {
  const keys = createKeys(from);
  return async (jwt) => {
    try {
      const { payload, protectedHeader } = await jwtVerify(jwt, keys, {
        issuer,
        audience,
        algorithms,
        requiredClaims: ['exp', 'sub'],
        clockTolerance: LEEWAY_S,
      });
      requireAccess(payload, protectedHeader.typ);
      return payload as JWTPayload & { sub: string; exp: number };
    } catch (error) {
      if (isAppError(error)) throw error;
      throw isForged(error) ? refusedToken(faultOf(error)) : keysAway();
    }
  };
}

/** Gives the claims of an id token that was issued a moment ago for this client and nonce. */
export type VerifyIdToken = (
  jwt: string,
  nonce: string,
) => Promise<JWTPayload & { sub: string; exp: number }>;

/** Verifies id tokens of one issuer for one client. A refusal says what is wrong with the token. */
export function createIdTokenVerifier({
  issuer,
  client_id,
  ...from
}: Omit<JwtIssuer, 'audience'> & { client_id: string }): VerifyIdToken {
  const keys = createKeys(from);
  return async (jwt, nonce) => {
    try {
      const { payload, protectedHeader } = await jwtVerify(jwt, keys, {
        issuer,
        audience: client_id,
        algorithms,
        requiredClaims: ['exp', 'iat', 'sub', 'nonce'],
        clockTolerance: LEEWAY_S,
        maxTokenAge: ID_TOKEN_AGE_S,
      });
      const { sub, aud, azp } = payload;
      if (!isPlain(protectedHeader.typ)) throw refusedIdToken('typ');
      if (typeof sub !== 'string' || sub === '') throw refusedIdToken('sub');
      // Of several audiences one is the client that it was made for.
      const made_for = azp ?? (Array.isArray(aud) && aud.length > 1 ? undefined : client_id);
      if (made_for !== client_id) throw refusedIdToken('azp');
      if (payload.nonce !== nonce) throw refusedIdToken('nonce');
      return payload as JWTPayload & { sub: string; exp: number };
    } catch (error) {
      if (isAppError(error)) throw error;
      if (!isForged(error)) throw keysAway();
      throw refusedIdToken(faultOf(error));
    }
  };
}

// The header is read before anybody looks at its types: `typ` may be anything.
function isPlain(typ: unknown): boolean {
  return typ === undefined || (typeof typ === 'string' && typ.toLowerCase() === 'jwt');
}

/** The part of a token that an error of jose is about. */
function faultOf(error: unknown): string {
  if (error instanceof errors.JWTExpired) return error.claim === 'iat' ? 'iat' : 'exp';
  if (error instanceof errors.JWTClaimValidationFailed)
    return error.reason === 'missing' ? 'missing' : error.claim;
  if (error instanceof errors.JOSEAlgNotAllowed) return 'alg';
  return 'signature';
}

// What to do about a part of an id token that is wrong.
const faults: Record<string, string> = {
  missing: 'it has no exp, iat, sub or nonce',
  iss: 'its iss is not the configured issuer',
  aud: 'its aud is not our client there',
  azp: 'its azp is not our client there',
  exp: 'it has expired; sign in again',
  iat: 'it was not issued a moment ago; sign in again',
  nonce: 'its nonce is not that of this sign-in',
  sub: 'its sub names nobody',
  alg: `its alg is none of ${algorithms.join(', ')}`,
  typ: 'its typ is not that of an id token',
  signature: 'no key of the issuer has signed it',
};

// The signature is looked at first: what is said of a claim is said of what the issuer wrote.
const token_faults: Record<string, string> = {
  ...faults,
  aud: 'its aud is not the audience that is configured here; send the access token for it, no id token',
  exp: 'it has expired; ask the identity provider for a new one',
  nbf: 'its nbf has not come yet',
  missing: 'it has no exp or no sub',
  iat: 'its iat has not come yet',
  life: 'its exp is more than 31 days away',
  typ: 'its typ is not that of an access token',
};

function refusedToken(fault: string): AppError {
  return new AppError(
    'invalid_credential',
    `This token is refused: ${token_faults[fault] ?? `look at its ${fault}`}.`,
  );
}

function refusedIdToken(fault: string): AppError {
  return new AppError(
    'invalid_credential',
    `This id token is refused: ${faults[fault] ?? `look at its ${fault}`}.`,
    { param: 'id_token' },
  );
}

function keysAway(): AppError {
  return new AppError('unavailable', "The issuer's keys could not be fetched.", {
    retry_after: 2,
  });
}

// Clocks of two machines differ by some seconds.
const LEEWAY_S = 5;
const ID_TOKEN_AGE_S = 600;
const LIFE_S_MAX = 31 * 24 * 3_600;
// RFC 7519 and RFC 9068. Other types that an issuer signs, a logout among them, open nothing.
const types = new Set(['jwt', 'at+jwt']);

/** Refuses what is signed and in time, and yet no token that a person calls with. */
function requireAccess(payload: JWTPayload, typ: unknown): void {
  const fault = accessFault(payload, typ);
  if (fault !== undefined) throw refusedToken(fault);
  // Nobody can be bound to a name that the database does not keep.
  if (!isKept(payload.sub as string))
    throw new AppError(
      'permission_denied',
      'This person is a member of no organization. Ask an owner or admin to add them.',
    );
}

function accessFault({ sub, exp, iat }: JWTPayload, typ: unknown): string | undefined {
  const now = Date.now() / 1_000;
  const is_typed =
    typ === undefined ||
    (typeof typ === 'string' && types.has(typ.toLowerCase().replace(/^application\//, '')));
  if (!is_typed) return 'typ';
  if (iat !== undefined && iat > now + LEEWAY_S) return 'iat';
  if ((exp ?? Number.POSITIVE_INFINITY) > now + LIFE_S_MAX) return 'life';
  return typeof sub !== 'string' || sub === '' ? 'sub' : undefined;
}

// The errors of jose if the key set is away or broken; a failed connection is the network's own
// error.
const setFaults = new Set(['ERR_JWKS_TIMEOUT', 'ERR_JWKS_INVALID', 'ERR_JOSE_GENERIC']);

function isForged(error: unknown): boolean {
  return error instanceof errors.JOSEError && !setFaults.has(error.code);
}
