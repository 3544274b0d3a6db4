import { z } from 'zod';
import { AppError } from '../../domain/errors';
import type { SealedIssuer } from '../../domain/people/issuers';
import type { Claims } from '../../domain/people/sign-in';
import { owner_of } from '../../domain/sealed';
import type { Secrets } from '../../domain/secrets';
import { createIdTokenVerifier, type VerifyIdToken } from '../../runtime/jwt';
import { fetch } from '../../runtime/outgoing';

const EXCHANGE_MS = 5_000;
const ANSWER_BYTES_MAX = 1_048_576;
const VERIFIERS_MAX = 200;

/** What an authorization code is exchanged with (RFC 7636). */
export interface Exchange {
  code: string;
  code_verifier: string;
  redirect_uri: string;
}

export type IdTokens = ReturnType<typeof createIdTokens>;

/** Asks identity providers for id tokens and verifies them; their keys are kept. */
export function createIdTokens(secrets: Secrets) {
  const verifiers = new Map<string, VerifyIdToken>();

  function verifierOf({ issuer, client_id, jwks_url }: SealedIssuer): VerifyIdToken {
    const name = JSON.stringify([issuer, client_id, jwks_url]);
    const known = verifiers.get(name);
    if (known !== undefined) return known;
    if (verifiers.size >= VERIFIERS_MAX) verifiers.clear();
    const made = createIdTokenVerifier({ issuer, client_id, jwks_url });
    verifiers.set(name, made);
    return made;
  }

  return {
    /** The claims of a good id token. Throws `invalid_credential` that says what is wrong. */
    verify: (issuer: SealedIssuer, id_token: string, nonce: string): Promise<Claims> =>
      verifierOf(issuer)(id_token, nonce),

    /** The id token for an authorization code. Throws `invalid_credential` if it is refused. */
    async exchange(issuer: SealedIssuer, given: Exchange): Promise<string> {
      const { id, client_id, credentials, token_url } = issuer;
      if (token_url === null)
        throw new AppError(
          'invalid_field',
          'This issuer has no token_url, so it takes no code. Send its id_token.',
          { param: 'code' },
        );
      const secret =
        credentials === null ? null : await secrets.open(credentials, owner_of.identity_issuer(id));
      const form = new URLSearchParams({
        grant_type: 'authorization_code',
        client_id,
        ...given,
      }).toString();
      const basic = secret === null ? {} : { authorization: basicOf(client_id, secret) };
      const answer = await ask(token_url, form, basic);
      if (answer === undefined) throw away();
      const { id_token } = answer;
      if (typeof id_token === 'string') return id_token;
      throw new AppError(
        'invalid_credential',
        'The identity provider refused this code: it is used or too old, or code_verifier or redirect_uri is another than at the start. Sign in again.',
        { param: 'code' },
      );
    },
  };
}

/** The answer as an object; undefined if the provider is away. */
async function ask(
  url: string,
  form: string,
  basic: { authorization?: string },
): Promise<Record<string, unknown> | undefined> {
  try {
    const answer = await fetch(url, {
      method: 'POST',
      headers: {
        'content-type': 'application/x-www-form-urlencoded',
        accept: 'application/json',
        ...basic,
      },
      body: form,
      redirect: 'manual',
      signal: AbortSignal.timeout(EXCHANGE_MS),
    });
    const parts: Uint8Array[] = [];
    let size = 0;
    for await (const part of answer.body ?? []) {
      size += part.byteLength;
      if (size > ANSWER_BYTES_MAX) return undefined;
      parts.push(part);
    }
    if (answer.status >= 500) return undefined;
    return z.record(z.string(), z.unknown()).parse(JSON.parse(Buffer.concat(parts).toString()));
  } catch {
    return undefined;
  }
}

/** RFC 6749, 2.3.1: both parts are encoded as in a form. */
function basicOf(client_id: string, secret: string): string {
  const encoded = [client_id, secret].map((part) => encodeURIComponent(part)).join(':');
  return `Basic ${Buffer.from(encoded).toString('base64')}`;
}

function away(): AppError {
  return new AppError('unavailable', 'The identity provider does not answer. Sign in again.', {
    retry_after: 2,
  });
}
