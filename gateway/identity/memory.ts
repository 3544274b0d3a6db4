import type { Identity } from '../../domain/people/identity';
import { createJwtVerifier, type JwtIssuer, type VerifyJwt } from '../../runtime/jwt';

const KNOWN_MAX = 10_000;
const KNOWN_MS = 30_000;

/** Remembers who a credential is. That a key is still valid is asked with every reserve; an assertion is valid until its end. */
export interface Identities {
  /** `ask` is called where nothing fresh is known; calls that come meanwhile wait for the same answer. */
  who(digest: string, ask: () => Promise<Answer>): Identity | Promise<Identity>;
  forget(digest: string): void;
  /** The verifier of an issuer; its keys outlive a configuration that still names it. */
  verifierOf(issuer: JwtIssuer): VerifyJwt;
}

export interface Answer {
  identity: Identity;
  /** Where it is to be forgotten sooner, in milliseconds of `performance.now()`. */
  until?: number;
}

interface Known {
  who: Identity | Promise<Identity>;
  until: number;
}

export function openIdentities(): Identities {
  const known = new Map<string, Known>();
  let verifier: { name: string; verify: VerifyJwt } | undefined;
  const remember = (digest: string, who: Known['who'], until: number): void => {
    known.delete(digest);
    known.set(digest, { who, until });
    const oldest = known.keys().next();
    if (known.size > KNOWN_MAX && oldest.value !== undefined) known.delete(oldest.value);
  };
  const fresh = (): number => performance.now() + KNOWN_MS;
  return {
    who(digest, ask) {
      const found = known.get(digest);
      if (found !== undefined && found.until > performance.now()) return found.who;
      const asked = ask().then(
        ({ identity, until = fresh() }) => {
          remember(digest, identity, until);
          return identity;
        },
        (error: unknown) => {
          known.delete(digest);
          throw error;
        },
      );
      remember(digest, asked, fresh());
      return asked;
    },
    forget: (digest) => void known.delete(digest),
    verifierOf(issuer) {
      const name = JSON.stringify(issuer);
      if (verifier?.name !== name) verifier = { name, verify: createJwtVerifier(issuer) };
      return verifier.verify;
    },
  };
}

/** How long a credential that ends at a moment (milliseconds since 1970) may be remembered. */
export function rememberedUntil(ends_at_ms: number): number {
  return performance.now() + Math.min(KNOWN_MS, ends_at_ms - Date.now());
}
