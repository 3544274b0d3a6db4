import { createRemoteJWKSet, customFetch, errors, type JWTPayload, jwtVerify } from 'jose';
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
 * Verifies JWTs of one issuer. Its keys are fetched again when a token names an unknown one, and
 * once they are old: beside the requests, so that an issuer that is away stops nobody whose key is
 * known.
 */
export function createJwtVerifier({
  issuer,
  audience,
  jwks_url,
  cooldown_ms = 30_000,
  fresh_ms = 600_000,
}: JwtIssuer): VerifyJwt {
  const keys = createRemoteJWKSet(new URL(jwks_url), {
    timeoutDuration: 2_000,
    cooldownDuration: cooldown_ms,
    cacheMaxAge: Number.POSITIVE_INFINITY,
    [customFetch]: (url, { method, headers, signal }) =>
      fetch(url, { method, headers: [...headers], signal, redirect: 'manual' }) as never,
  });
  let renew_at = Date.now() + fresh_ms;
  const renewOld = (): void => {
    if (Date.now() < renew_at) return;
    renew_at = Date.now() + Math.min(cooldown_ms, fresh_ms);
    const renewed = () => {
      renew_at = Date.now() + fresh_ms;
    };
    // The keys at hand stay good while the issuer is away.
    keys.reload().then(renewed, () => undefined);
  };
  return async (jwt) => {
    renewOld();
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
      throw isForged(error)
        ? new AppError(
            'invalid_credential',
            'This token is expired or not of the configured issuer.',
          )
        : new AppError('unavailable', "The issuer's keys could not be fetched.", {
            retry_after: 2,
          });
    }
  };
}

// Clocks of two machines differ by some seconds.
const LEEWAY_S = 5;
const LIFE_S_MAX = 31 * 24 * 3_600;
// RFC 7519 and RFC 9068. Other types that an issuer signs, a logout among them, open nothing.
const types = new Set(['jwt', 'at+jwt']);

/** Refuses what is signed and in time, and yet no token that a person calls with. */
function requireAccess({ sub, exp, iat }: JWTPayload, typ: string | undefined): void {
  const now = Date.now() / 1_000;
  const is_typed = typ === undefined || types.has(typ.toLowerCase().replace(/^application\//, ''));
  const is_early = iat !== undefined && iat > now + LEEWAY_S;
  const is_endless = (exp ?? Number.POSITIVE_INFINITY) > now + LIFE_S_MAX;
  if (!is_typed || is_early || is_endless || typeof sub !== 'string' || sub === '')
    throw new AppError(
      'invalid_credential',
      'This token is no access token of a person: look at its typ, sub, iat and exp (31 days at most).',
    );
  // Nobody can be bound to a name that the database does not keep.
  if (!isKept(sub))
    throw new AppError(
      'permission_denied',
      'This person is a member of no organization. Ask an owner or admin to add them.',
    );
}

// The errors of jose if the key set is away or broken; a failed connection is the network's own
// error.
const setFaults = new Set(['ERR_JWKS_TIMEOUT', 'ERR_JWKS_INVALID', 'ERR_JOSE_GENERIC']);

function isForged(error: unknown): boolean {
  return error instanceof errors.JOSEError && !setFaults.has(error.code);
}
