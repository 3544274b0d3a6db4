import { AppError } from '../../domain/errors';
import type { OpenProviderKey, Wanted } from '../../domain/gateways/provider-keys';
import type { Logger } from '../../runtime/log';
import type { Batches } from './batches';
import { refusedCall } from './refusals';
import { errorOf } from './replies';

// Keys of providers that lie sealed in the control plane. They are in the memory of this process
// alone, a minute at most, and in nothing that is written.

/** How a hold names a key: another one, or an older value of it, is not meant. */
export interface Meant {
  provider_key_id: string;
  version: number;
}

export interface ProviderKeys {
  /**
   * A key; null if there is none. Throws `unavailable` if it is not known here and cannot be asked
   * for. A reserve says which one it is at present, so that none is used that was revoked or
   * replaced before. What was asked for longer than `most_ms` ago is asked for anew.
   */
  find(wanted: Wanted, meant?: Meant, most_ms?: number): Promise<OpenProviderKey | null>;
  /**
   * The provider refused this value: it is forgotten, at most once in a while. True if another
   * attempt may find a newer one.
   */
  refuse(wanted: Wanted, value: string): boolean;
  close(): void;
}

const KEPT_MS = 60_000;
// That there is none is asked again soon.
const NONE_MS = 5_000;
const KEPT_MAX = 10_000;
// A key that its provider refuses is asked for anew, but not with each request.
const REST_MS = 10_000;
const TIMEOUT_MS = 2_000;

interface Kept {
  answer: OpenProviderKey | null;
  since: number;
  life_ms: number;
  end: NodeJS.Timeout;
}

/** The keys that this gateway has been given. */
export function openProviderKeys(
  batches: Pick<Batches, 'request'>,
  log: Logger,
  now: () => number = () => performance.now(),
): ProviderKeys {
  const kept = new Map<string, Kept>();
  const asked = new Map<string, Promise<OpenProviderKey | null | undefined>>();
  const refused_at = new Map<string, number>();

  const forget = (name: string): void => {
    clearTimeout(kept.get(name)?.end);
    kept.delete(name);
  };
  const keep = (name: string, answer: OpenProviderKey | null): void => {
    forget(name);
    const [oldest] = kept.keys();
    if (kept.size >= KEPT_MAX && oldest !== undefined) forget(oldest);
    const life_ms = answer === null ? NONE_MS : KEPT_MS;
    const end = setTimeout(() => kept.delete(name), life_ms).unref();
    kept.set(name, { answer, since: now(), life_ms, end });
  };
  const ask = (name: string, wanted: Wanted): Promise<OpenProviderKey | null | undefined> => {
    const known = asked.get(name);
    if (known !== undefined) return known;
    const question = askFor(batches, log, wanted)
      .then((answer) => {
        if (answer !== undefined) keep(name, answer);
        return answer;
      })
      .finally(() => asked.delete(name));
    asked.set(name, question);
    return question;
  };
  return {
    async find(wanted, meant, most_ms = KEPT_MS) {
      const name = nameOf(wanted);
      const found = kept.get(name);
      const is_fresh =
        found !== undefined && now() - found.since < Math.min(found.life_ms, most_ms);
      if (is_fresh && isMeant(found.answer, meant)) return found.answer;
      let answer = await ask(name, wanted);
      // Another call may have asked before the key was replaced.
      if (!isMeant(answer, meant)) answer = await ask(name, wanted);
      // A key that a hold names is there, whatever an API of the version before knows of it.
      if (answer === undefined && meant !== undefined) throw unavailable();
      return answer ?? null;
    },
    refuse(wanted, value) {
      const name = nameOf(wanted);
      if (kept.get(name)?.answer?.key !== value) return true;
      if (now() - (refused_at.get(name) ?? Number.NEGATIVE_INFINITY) < REST_MS) return false;
      if (refused_at.size >= KEPT_MAX) refused_at.clear();
      refused_at.set(name, now());
      forget(name);
      return true;
    },
    close() {
      for (const name of [...kept.keys()]) forget(name);
    },
  };
}

function nameOf(wanted: Wanted): string {
  return JSON.stringify('name' in wanted ? [wanted.name] : [wanted.org_id, wanted.provider]);
}

/** True if this is the key that is meant, in its value of then or a newer one. */
function isMeant(answer: OpenProviderKey | null | undefined, meant: Meant | undefined): boolean {
  if (meant === undefined) return true;
  return answer?.provider_key_id === meant.provider_key_id && answer.version >= meant.version;
}

/** A key; null if there is none; undefined of a control plane that knows of no such keys. */
async function askFor(
  batches: Pick<Batches, 'request'>,
  log: Logger,
  wanted: Wanted,
): Promise<OpenProviderKey | null | undefined> {
  const options = { timeout_ms: TIMEOUT_MS };
  const reply = await batches.request('POST', '/v1/gateway/provider-keys', wanted, options);
  if (reply?.status === 200) return reply.body.provider_key as OpenProviderKey | null;
  if (reply === undefined || reply.status >= 500) throw unavailable();
  // A control plane of the version before has no such route.
  if (reply.status === 404 && (errorOf(reply).param ?? null) === null) return undefined;
  throw refusedCall(log, reply);
}

function unavailable(): AppError {
  return new AppError(
    'unavailable',
    'The key of the provider cannot be had from the control plane at present. Repeat the request shortly.',
    { retry_after: 2 },
  );
}
