import type { AppError } from '../../domain/errors';
import type { Identity } from '../../domain/people/identity';
import { invalidKey } from '../../domain/people/keys';
import { createTurns } from '../../runtime/turns';

/** Keys that nobody here knows, of one address, that are asked for at one time. */
const ASKED_MAX = 8;
const WAIT_MS = 2_000;
/** A key that does not exist keeps its turn for so long: an address has twenty guesses a second. */
const GUESS_MS = 400;
/** So long a key that does not exist is not asked for again. */
const REFUSED_MS = 1_000;
const REFUSED_MAX = 1_000;

/** Keys that this gateway does not know, which may be guesses. */
export interface Guesses {
  /** Asks who a key is in the turn of its address. Throws `invalid_credential`, or 503. */
  ask(from: string, digest: string, ask: () => Promise<Identity>): Promise<Identity>;
}

/** Keeps a flood of invented keys from the control plane, which has others to answer. */
export function createGuesses(): Guesses {
  const turns = createTurns({
    most: ASKED_MAX,
    wait_ms: WAIT_MS,
    message: 'Many unknown gateway keys come from your address. Repeat this after Retry-After.',
  });
  const refused = new Map<string, number>();

  function remember(digest: string): void {
    refused.delete(digest);
    refused.set(digest, performance.now() + REFUSED_MS);
    const [oldest] = refused.keys();
    if (refused.size > REFUSED_MAX && oldest !== undefined) refused.delete(oldest);
  }

  return {
    async ask(from, digest, ask) {
      const isRefused = () => (refused.get(digest) ?? 0) > performance.now();
      if (isRefused()) throw invalidKey();
      const end = await turns.take(from);
      let held_ms = 0;
      try {
        // It may have been asked for meanwhile.
        if (isRefused()) throw invalidKey();
        return await ask().catch((error: AppError) => {
          if (error.code !== 'invalid_credential') throw error;
          remember(digest);
          held_ms = GUESS_MS;
          throw error;
        });
      } finally {
        if (held_ms > 0) setTimeout(end, held_ms).unref();
        else end();
      }
    },
  };
}
