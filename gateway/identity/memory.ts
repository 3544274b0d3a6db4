import { AppError } from '../../domain/errors';
import type { Identity } from '../../domain/people/identity';
import { createJwtVerifier, type JwtIssuer, type VerifyJwt } from '../../runtime/jwt';
import { createGuesses } from './guesses';

const KNOWN_MAX = 10_000;
const KNOWN_MS = 30_000;

/**
 * Remembers who a credential is. That a key is still valid is asked with every reserve; an
 * assertion is valid until its end.
 */
export interface Identities {
  /** Calls `ask` if nothing fresh is known; calls that come meanwhile wait for the same answer. */
  who(digest: string, ask: () => Promise<Answer>): Identity | Promise<Identity>;
  forget(digest: string): void;
  /** Asks for a credential: at once if it was known here, else in the turn of its address. */
  ask(from: string, digest: string, ask: () => Promise<Identity>): Promise<Identity>;
  /**
   * The same memory, which asks for one unknown credential at a time: meanwhile `who` throws
   * `overloaded`.
   */
  inTurn: Pick<Identities, 'who' | 'forget' | 'ask' | 'verifierOf'>;
  /** Whether an unknown credential is being asked for in turn. */
  isAsking(): boolean;
  /** The verifier of an issuer; its keys outlive a configuration that still names it. */
  verifierOf(issuer: JwtIssuer): VerifyJwt;
}

export interface Answer {
  identity: Identity;
  /** When it is to be forgotten, if sooner than usual, in milliseconds of `performance.now()`. */
  until?: number;
}

interface Known {
  who: Identity | Promise<Identity>;
  until: number;
}

export function createIdentities(): Identities {
  const known = new Map<string, Known>();
  const guesses = createGuesses();
  let verifier: { name: string; verify: VerifyJwt } | undefined;
  const remember = (digest: string, who: Known['who'], until: number): void => {
    known.delete(digest);
    known.set(digest, { who, until });
    const oldest = known.keys().next();
    if (known.size > KNOWN_MAX && oldest.value !== undefined) known.delete(oldest.value);
  };
  const fresh = (): number => performance.now() + KNOWN_MS;
  let is_asking = false;
  const memory: Omit<Identities, 'inTurn' | 'isAsking'> = {
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
    async ask(from, digest, ask) {
      const found = known.get(digest);
      const wasKnown = found !== undefined && !(found.who instanceof Promise);
      const identity = await (wasKnown ? ask() : guesses.ask(from, digest, ask));
      remember(digest, identity, fresh());
      return identity;
    },
    verifierOf(issuer) {
      const name = JSON.stringify(issuer);
      if (verifier?.name !== name) verifier = { name, verify: createJwtVerifier(issuer) };
      return verifier.verify;
    },
  };
  const askInTurn: Identities['who'] = (digest, ask) =>
    memory.who(digest, () => {
      // Thrown before anything is remembered.
      if (is_asking) throw new AppError('overloaded', 'Another caller is asked for.');
      is_asking = true;
      return ask().finally(() => {
        is_asking = false;
      });
    });
  return { ...memory, inTurn: { ...memory, who: askInTurn }, isAsking: () => is_asking };
}

/** How long a credential that ends at a moment (milliseconds since 1970) may be remembered. */
export function rememberedUntil(ends_at_ms: number): number {
  return performance.now() + Math.min(KNOWN_MS, ends_at_ms - Date.now());
}
