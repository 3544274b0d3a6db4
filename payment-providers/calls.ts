import { cut } from '../domain/texts';
import {
  isProviderRefusal,
  isProviderTrouble,
  type ProviderAccess,
  ProviderRefusal,
  ProviderTrouble,
} from './provider';

// Both adapters run their calls through this: it ends a call in time, and lets no secret out with
// an error.

/** How long a call may take, with all requests that it makes. */
export const CALL_MS = 10_000;

const MESSAGE_MAX = 500;
// A shorter one is no secret, and would be found in every word.
const SECRET_MIN = 6;

/**
 * Explains an error of a client package: a message for the log, and whether it is a definite no.
 */
type Explain = (error: unknown) => { message: string; refusal?: ProviderRefusal['code'] };

interface Calls {
  /** Runs a call to the provider. Every error becomes a ProviderRefusal or a ProviderTrouble. */
  run<T>(work: (signal: AbortSignal) => Promise<T>): Promise<T>;
}

export function createCalls(
  name: string,
  { credentials, webhook_secrets }: ProviderAccess,
  { explain, call_ms }: { explain: Explain; call_ms: number },
): Calls {
  const secrets = [...Object.values(credentials), ...webhook_secrets].filter(
    ({ length }) => length >= SECRET_MIN,
  );
  // A provider that repeats our credentials in its messages must not get them into logs and
  // histories.
  const clean = (text: string) =>
    secrets
      .reduce((cleaned, secret) => cleaned.replaceAll(secret, '***'), text)
      .replace(/\b(Bearer|Basic) \S+/g, '$1 ***');
  const say = (text: string) => `${name}: ${cut(clean(text), MESSAGE_MAX)}`;
  return {
    async run(work) {
      const signal = AbortSignal.timeout(call_ms);
      try {
        return await Promise.race([work(signal), endOf(signal)]);
      } catch (error) {
        if (isProviderRefusal(error)) throw new ProviderRefusal(error.code, say(error.message));
        if (isProviderTrouble(error)) throw new ProviderTrouble(say(error.message));
        if (signal.aborted) throw new ProviderTrouble(say(`no answer within ${call_ms} ms`));
        const { message, refusal } = explain(error);
        throw refusal
          ? new ProviderRefusal(refusal, say(message))
          : new ProviderTrouble(say(message));
      }
    },
  };
}

function endOf(signal: AbortSignal): Promise<never> {
  return new Promise((_resolve, reject) => {
    signal.addEventListener('abort', () => reject(signal.reason), { once: true });
  });
}

/**
 * The message for an error that is not the provider's answer: its code or name, as its own message
 * may hold anything.
 */
export function lostWords(error: unknown): string {
  const { code, name, cause } = error as {
    code?: unknown;
    name?: string;
    cause?: { code?: unknown };
  };
  const known = [cause?.code, code, name].find((word) => typeof word === 'string' && word !== '');
  return `could not be reached (${String(known ?? 'unknown error')})`;
}
