import { AppError } from '../../domain/errors';
import type { Identity } from '../../domain/people/identity';
import { createJwtVerifier, type JwtIssuer, type VerifyJwt } from '../../runtime/jwt';
import { createGuesses } from './guesses';

const KNOWN_MAX = 10_000;
const KNOWN_MS = 30_000;
/** So long after that an assertion in use is still good while it is asked for beside its calls. */
const RENEWED_MS = 60_000;

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
  /** Until when it may be used while it is asked for again, if not longer than `until`. */
  good_until?: number;
}

interface Known {
  who: Identity | Promise<Identity>;
  until: number;
  good_until: number;
}

export function createIdentities(clock = () => performance.now()): Identities {
  const known = new Map<string, Known>();
  const fresh = () => clock() + KNOWN_MS;
  const guesses = createGuesses();
  const remember = (
    digest: string,
    who: Known['who'],
    until: number,
    good_until: number = until,
  ): void => {
    known.delete(digest);
    known.set(digest, { who, until, good_until });
    const oldest = known.keys().next();
    if (known.size > KNOWN_MAX && oldest.value !== undefined) known.delete(oldest.value);
  };
  let is_asking = false;
  const memory: Omit<Identities, 'inTurn' | 'isAsking'> = {
    who(digest, ask) {
      const found = known.get(digest);
      const now = clock();
      if (found !== undefined && found.until > now) return found.who;
      const asked: Promise<Identity> = ask().then(
        ({ identity, until = fresh(), good_until }) => {
          remember(digest, identity, until, good_until);
          return identity;
        },
        (error: AppError) => {
          // What cannot be asked for now is good for as long as it was.
          if (error.code !== 'unavailable' || known.get(digest)?.who === asked)
            known.delete(digest);
          throw error;
        },
      );
      if (found === undefined || found.good_until <= now) {
        remember(digest, asked, fresh());
        return asked;
      }
      // One call has it renewed, and none waits; a refusal reaches the next.
      found.until = Math.min(fresh(), found.good_until);
      asked.catch(() => undefined);
      return found.who;
    },
    forget: (digest) => void known.delete(digest),
    async ask(from, digest, ask) {
      const found = known.get(digest);
      const wasKnown = found !== undefined && !(found.who instanceof Promise);
      const identity = await (wasKnown ? ask() : guesses.ask(from, digest, ask));
      remember(digest, identity, fresh());
      return identity;
    },
    verifierOf: verifierKeeper(),
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

/** Keeps the verifier of the issuer that was asked for last. */
function verifierKeeper(): Identities['verifierOf'] {
  let verifier: { name: string; verify: VerifyJwt } | undefined;
  return (issuer) => {
    const name = JSON.stringify(issuer);
    if (verifier?.name !== name) verifier = { name, verify: createJwtVerifier(issuer) };
    return verifier.verify;
  };
}

/** How long a credential that ends at a moment (milliseconds since 1970) may be remembered. */
export function rememberedUntil(ends_at_ms: number): Required<Omit<Answer, 'identity'>> {
  const now = performance.now();
  const left_ms = ends_at_ms - Date.now();
  return {
    until: now + Math.min(KNOWN_MS, left_ms),
    good_until: now + Math.min(KNOWN_MS + RENEWED_MS, left_ms),
  };
}
