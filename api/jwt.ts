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
export function createJwtVerifier({ issuer, audience, jwks_url }: JwtIssuer): VerifyJwt {
  const keys = createRemoteJWKSet(new URL(jwks_url), { timeoutDuration: 2_000 });
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

// jose has a class for each fault of a token; a failed fetch is a time-out, a plain JOSEError or the network's own error.
function isForged(error: unknown): boolean {
  if (!(error instanceof errors.JOSEError)) return false;
  return error.code !== 'ERR_JWKS_TIMEOUT' && error.code !== 'ERR_JOSE_GENERIC';
}
