import type { AppError } from '../../domain/errors';
import type { Routed } from '../call/call';
import { checkRefusal } from '../stages/policies';
import { withoutTokens } from '../upstreams/credentials/outbound';
import { failureBody, ownKeyRefused, refusedBody } from '../upstreams/errors';
import { type Failure, failureWith } from '../upstreams/failures';
import { retryAfter } from '../upstreams/retry';
import type { Upstream } from '../upstreams/target';
import { type Headers, picked } from './answer';

/** An error of an upstream, with what it said. */
export interface Refusal {
  status: number;
  headers: Headers;
  /** Without its compression, if it could be read. */
  body: Buffer;
}

/** A refusal, and what it means. */
export interface Refused {
  failure: Failure;
  refusal: Refusal;
}

// What a provider says of repeats is true for the client's too.
const hints = ['retry-after', 'retry-after-ms', 'x-should-retry'];

/** Reads an error status as it came. */
export function readRefusal(given: Refusal): Refused {
  const { status, headers, body } = given;
  const read = refusedBody(body, headers['content-encoding']);
  return {
    failure: failureWith(status, read?.json, namedBeside(headers)),
    refusal: { ...given, body: read?.bytes ?? body },
  };
}

/** The code that AWS tells in a header: `ThrottlingException:http://…`. */
function namedBeside(headers: Headers): string | undefined {
  const [name = ''] = String(headers['x-amzn-errortype'] ?? '').split(':');
  return name === '' ? undefined : name;
}

/** The same without what proves who asks: some servers repeat the headers that they were sent. */
export function withoutSecrets(refused: Refused, secrets: readonly string[]): Refused {
  const { failure, refusal } = refused;
  const found = secrets.filter((secret) => refusal.body.includes(secret));
  if (found.length === 0) return refused;
  const hide = (text: string) =>
    found.reduce((left, secret) => left.replaceAll(secret, '[credential]'), text);
  const body = Buffer.from(hide(refusal.body.toString('utf8')));
  return {
    failure: { ...failure, message: hide(failure.message) },
    refusal: { ...refusal, body },
  };
}

/**
 * Answers the client with what its provider said. Throws our own refusal where the client is not
 * told that, or the provider said nothing.
 */
export async function answerRefusal(call: Routed, { failure, refusal }: Refused): Promise<void> {
  const own = ownRefusal(call.target, { failure, refusal });
  if (own !== undefined) throw own;
  const kept = picked(refusal.headers);
  for (const name of hints) if (kept[name] !== undefined) call.ctx.set(name, kept[name]);
  const wait = failure.status < 429 ? undefined : retryAfter(refusal.headers, jsonIn(refusal.body));
  if (wait !== undefined) call.ctx.set('retry-after', String(wait));
  const body = await checkRefusal(call, failure.status, failureBody(failure, refusal));
  const type = kept['content-type'] ?? '';
  call.ctx.set({ ...kept, 'content-type': /\bjson\b/i.test(type) ? type : 'application/json' });
  call.ctx.status = failure.status;
  call.ctx.body = body;
}

/** The refusal of an own key; undefined if what was refused is another thing, or no such key. */
export function ownRefusal(
  { provider, own_key_id }: Pick<Upstream, 'provider' | 'own_key_id'>,
  { failure, refusal }: Refused,
): AppError | undefined {
  const is_of_key = failure.blame === 'account' || failure.status === 429;
  if (own_key_id === undefined || !is_of_key) return undefined;
  const message = withoutTokens(failure.message);
  const told = Number(refusal.headers['retry-after'] ?? Number.NaN);
  const wait = told > 0 ? told : retryAfter(refusal.headers, jsonIn(refusal.body));
  return ownKeyRefused(provider, { status: failure.status, message }, wait);
}

function jsonIn(body: Buffer): unknown {
  try {
    return JSON.parse(body.toString('utf8')) as unknown;
  } catch {
    return undefined;
  }
}
