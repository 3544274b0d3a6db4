import type { AppError } from '../../domain/errors';
import type { Routed } from '../call/call';
import { checkRefusal } from '../stages/policies';
import { withoutAccounts } from '../upstreams/account-names';
import { withoutTokens } from '../upstreams/credentials/outbound';
import { failureBody, ownKeyRefused, refusedBody } from '../upstreams/errors';
import { type Failure, failureWith } from '../upstreams/failures';
import { headerWait, limitHeaders, limitTold, retryAfter } from '../upstreams/retry';
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

/**
 * The same without what proves who asks, as some servers repeat the headers that they were sent,
 * and without what names the account that does. Of a refusal of that account no client is told, and
 * the operator may read the name.
 */
export function withoutSecrets(refused: Refused, secrets: readonly string[]): Refused {
  const { failure, refusal } = refused;
  const hide = failure.blame === 'account' ? hiding(secrets) : hidingAll(secrets);
  const given = refusal.body.toString('utf8');
  const text = hide(given);
  const message = hide(failure.message);
  const is_same = text === given;
  if (is_same && message === failure.message) return refused;
  return {
    failure: {
      ...failure,
      message,
      // An escape may hide in the body what its words say.
      ...(is_same ? { is_retold: true } : {}),
      ...(failure.original === undefined ? {} : { original: hiding(secrets)(failure.original) }),
    },
    refusal: { ...refusal, body: is_same ? refusal.body : Buffer.from(text) },
  };
}

/** Takes secrets out of a text, and what names the account that asks. */
export function hidingAll(secrets: readonly string[]): (text: string) => string {
  const hide = hiding(secrets);
  return (text) => withoutAccounts(hide(text));
}

/** Takes secrets out of a text. */
export function hiding(secrets: readonly string[]): (text: string) => string {
  return (text) => secrets.reduce((left, secret) => left.replaceAll(secret, '[credential]'), text);
}

/**
 * Answers the client with what its provider said. Throws our own refusal where the client is not
 * told that, or the provider said nothing.
 */
export async function answerRefusal(call: Routed, { failure, refusal }: Refused): Promise<void> {
  const own = ownRefusal(call.target, { failure, refusal });
  if (own !== undefined) throw own;
  const { 'retry-after': _, ...kept } = picked(refusal.headers);
  const hints = hintsOf(failure, refusal);
  call.ctx.set(hints);
  const body = await checkRefusal(call, failure.status, failureBody(failure, refusal));
  const type = kept['content-type'] ?? '';
  const content_type = /\bjson\b/i.test(type) ? type : 'application/json';
  call.ctx.set({ ...kept, ...hints, 'content-type': content_type });
  call.ctx.status = failure.status;
  call.ctx.body = body;
}

/**
 * What a provider says of repeats is true for the client's too: the wait in whole seconds, and of a
 * 429 all that each 429 says.
 */
function hintsOf({ status, blame }: Failure, { headers, body }: Refusal): Record<string, string> {
  const hints: Record<string, string> = {};
  for (const name of ['retry-after-ms', 'x-should-retry']) {
    const value = headers[name];
    if (typeof value === 'string') hints[name] = value;
  }
  const said = jsonIn(body);
  // The client of a gateway whose account is refused gets another status.
  if (status === 429 && blame !== 'account') return { ...hints, ...limitHeaders(headers, said) };
  const wait = status < 429 ? headerWait(headers) : retryAfter(headers, said);
  return wait === undefined ? hints : { ...hints, 'retry-after': String(wait) };
}

/** The refusal of an own key; undefined if what was refused is another thing, or no such key. */
export function ownRefusal(
  { provider, own_key_id }: Pick<Upstream, 'provider' | 'own_key_id'>,
  { failure, refusal }: Refused,
): AppError | undefined {
  const is_of_option = failure.blame === 'moment' && failure.original !== undefined;
  const is_of_key = failure.blame === 'account' || failure.status === 429 || is_of_option;
  if (own_key_id === undefined || !is_of_key) return undefined;
  const message = withoutTokens(failure.original ?? failure.message);
  const limit = limitTold(refusal.headers, jsonIn(refusal.body));
  return ownKeyRefused(provider, { status: failure.status, message }, limit);
}

function jsonIn(body: Buffer): unknown {
  try {
    return JSON.parse(body.toString('utf8')) as unknown;
  } catch {
    return undefined;
  }
}
