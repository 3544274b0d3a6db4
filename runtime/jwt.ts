import { createRemoteJWKSet, customFetch, errors, type JWTPayload, jwtVerify } from 'jose';
import { AppError } from '../domain/errors';
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
      const { payload } = await jwtVerify(jwt, keys, {
        issuer,
        audience,
        algorithms,
        requiredClaims: ['exp', 'sub'],
      });
      return payload as JWTPayload & { sub: string; exp: number };
    } catch (error) {
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

// The errors of jose if the key set is away or broken; a failed connection is the network's own
// error.
const setFaults = new Set(['ERR_JWKS_TIMEOUT', 'ERR_JWKS_INVALID', 'ERR_JOSE_GENERIC']);

function isForged(error: unknown): boolean {
  return error instanceof errors.JOSEError && !setFaults.has(error.code);
}
