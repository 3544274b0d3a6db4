import { createRemoteJWKSet, errors, jwtVerify } from 'jose';
import { AppError } from '../domain/errors';

/** Who a JWT is about. */
export interface Identity {
  issuer: string;
  subject: string;
}

export type VerifyJwt = (jwt: string) => Promise<Identity>;

export interface JwtIssuer {
  issuer: string;
  audience: string;
  jwks_url: string;
  /** How long an unknown key id fetches nothing after a fetch, so that forged tokens cannot make us ask all the time. */
  cooldown_ms?: number;
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

/** Verifies JWTs of one issuer. Its keys are cached and fetched again when a token names an unknown one. */
export function createJwtVerifier({
  issuer,
  audience,
  jwks_url,
  cooldown_ms = 30_000,
}: JwtIssuer): VerifyJwt {
  const keys = createRemoteJWKSet(new URL(jwks_url), {
    timeoutDuration: 2_000,
    cooldownDuration: cooldown_ms,
  });
  return async (jwt) => {
    try {
      const { payload } = await jwtVerify(jwt, keys, {
        issuer,
        audience,
        algorithms,
        requiredClaims: ['exp', 'sub'],
      });
      return { issuer, subject: payload.sub as string };
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

// What jose throws where the key set is away or broken; a failed connection is the network's own error.
const setFaults = new Set(['ERR_JWKS_TIMEOUT', 'ERR_JWKS_INVALID', 'ERR_JOSE_GENERIC']);

function isForged(error: unknown): boolean {
  return error instanceof errors.JOSEError && !setFaults.has(error.code);
}
