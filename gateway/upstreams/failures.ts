import { type Body, isObject, stringOf } from '../wire/values';
import { aboutMoment, aboutRequest, speaksOfAccount } from './account-words';
import { waitIn } from './retry';

// The one place that knows the words in which providers say that they give no answer.

/** Who can do something about it, which decides what follows. */
export type Blame =
  /** The request is wrong: the client is told, and nobody else is asked. */
  | 'client'
  /** This gateway's own account with the provider, of which no client is told. */
  | 'account'
  /** The target is in trouble: another one may do better, and its circuit counts it. */
  | 'target'
  /** Another target, or a later moment, may not say the same. */
  | 'moment';

/** True if it says that the target is in trouble, or this gateway with it. */
export function speaksAgainst(blame: Blame): boolean {
  return blame === 'target' || blame === 'account';
}

/** What a provider says in place of an answer. */
export interface Failure {
  blame: Blame;
  /** The status that the client gets if no other target answers. */
  status: number;
  /** The provider's words; empty if it gives none. */
  message: string;
  /** The message is the gateway's own, as the provider's names an account. */
  is_retold?: boolean;
  /** The provider's own, where they are retold: for the log, and for whose key it is. */
  original?: string;
  code: string | null;
  type: string | null;
  param: string | null;
}

interface Words {
  message: string;
  code: unknown;
  type: unknown;
  param: unknown;
}

// What the words in a 200 mean as a status; all that is not named is the provider's own failure.
const statuses: ReadonlyMap<string, number> = new Map([
  ['bad_request', 400],
  ['badrequesterror', 400],
  ['content_filter', 400],
  ['content_policy_violation', 400],
  ['context_length_exceeded', 400],
  ['invalid_argument', 400],
  ['invalid_prompt', 400],
  ['invalid_request', 400],
  ['invalid_request_error', 400],
  ['string_above_max_length', 400],
  ['authentication_error', 401],
  ['invalid_api_key', 401],
  ['unauthenticated', 401],
  ['billing_error', 402],
  ['payment_required', 402],
  ['permission_denied', 403],
  ['permission_error', 403],
  ['model_not_found', 404],
  ['not_found', 404],
  ['not_found_error', 404],
  ['request_too_large', 413],
  ['rate_limit_error', 429],
  ['timeout_error', 408],
  // What passes with the next attempt is no broken answer.
  ['overloaded_error', 529],
  ['overloaded', 503],
  ['service_unavailable', 503],
  ['unavailable', 503],
  ['rate_limit_exceeded', 429],
  ['resource_exhausted', 429],
  ['too_many_requests', 429],
]);

// Codes of what is wrong with what the client sent: its pictures, its files, its words.
const of_client = new RegExp(
  `^(?:${[
    'invalid_[a-z0-9_]+',
    'image_(?:parse_error|too_[a-z]+|file_[a-z_]+|content_policy_violation)',
    'empty_image_file',
    'unsupported_(?:image|file|media|audio)[a-z_]*',
    'failed_to_download_[a-z_]+',
    '(?:[a-z]+_)?content_(?:filter|policy_violation)',
    'bio_policy',
    'vector_store_[a-z_]*timeout',
  ].join('|')})$`,
  'i',
);

const DETAILS_MAX = 20;
const about_account = new Set([401, 402, 403, 407]);
// An unknown model, a time-out, a model that failed, too many requests.
const passing = new Set([404, 408, 424, 425, 429]);
const passing_inside = new Set([408, 429]);

/** True if an answer or an event says that there is no answer. Runs for every event of a stream. */
export function saysFailure(value: Body): boolean {
  const { error, type, choices } = value;
  if (isSaid(error)) return true;
  if (type === 'error' || value.object === 'error' || type === 'response.failed') return true;
  if (value.status === 'failed' && value.object === 'response') return true;
  if (Array.isArray(choices)) return choices.some(endsInError);
  return type === undefined && 'base_resp' in value && baseCode(value) !== 0;
}

/** A choice that ends in an error says so beside its text, or as the reason of its end. */
function endsInError(choice: Body | null): boolean {
  return isSaid(choice?.error) || choice?.finish_reason === 'error';
}

/**
 * True for a body that holds nothing but words about a failure, as some servers write them; an
 * answer may have members of these names.
 */
export function isOnlyWords(value: Body): boolean {
  return ['message', 'detail', 'errors', 'error_msg', 'Message', 'msg'].some((name) =>
    isSaid(value[name]),
  );
}

/** What an answer with a status of success says; its own code stands for the status. */
export function failureInside(value: unknown): Failure {
  const words = wordsIn(value) ?? nothing_said;
  const status = statusIn(words) ?? 502;
  return failureOf(words, status, passing_inside, value);
}

/**
 * What the body of an error status says, as far as it can be read. `named` is the code that stands
 * beside it.
 */
export function failureWith(status: number, value: unknown, named?: string): Failure {
  const found = wordsIn(value) ?? nothing_said;
  const words = { ...found, code: found.code ?? named ?? null };
  const failure = failureOf(words, status, passing, value);
  // A moderation of the request is no matter of the account.
  return status === 403 && isFlagged(value) ? { ...failure, blame: 'client' } : failure;
}

function failureOf(
  words: Words,
  status: number,
  elsewhere: ReadonlySet<number>,
  value: unknown,
): Failure {
  const { message, code, type, param } = words;
  const momentary = aboutMoment(words, { status, waits: waitIn(value) !== undefined });
  const blame = momentary === undefined ? blameOf(words, status, elsewhere) : 'moment';
  const { retold } = momentary ?? (blame === 'client' ? aboutRequest(message) : undefined) ?? {};
  return {
    blame,
    status: momentary?.status ?? (status < 400 ? 502 : status),
    message: retold ?? message,
    ...(retold === undefined ? {} : { is_retold: true, original: message }),
    code: typeof code === 'number' ? String(code) : wordIn(code),
    type: type === 'error' ? null : wordIn(type),
    param: stringOf(param) || null,
  };
}

const word = /^[\w.:/-]{1,100}$/;

/** A code or a type; null for anything that is no such word. */
function wordIn(value: unknown): string | null {
  return typeof value === 'string' && word.test(value) ? value : null;
}

function blameOf(words: Words, status: number, elsewhere: ReadonlySet<number>): Blame {
  if (about_account.has(status) || speaksOfAccount(words, status))
    return aboutRequest(words.message) === undefined ? 'account' : 'client';
  if (elsewhere.has(status)) return 'moment';
  return status >= 400 && status < 500 ? 'client' : 'target';
}

function statusIn({ code, type }: Words): number | undefined {
  for (const word of [code, type]) {
    const number = typeof word === 'number' ? word : Number(stringOf(word) || Number.NaN);
    if (Number.isInteger(number) && number >= 400 && number <= 599) return number;
  }
  for (const word of [code, type]) {
    const status = statuses.get(stringOf(word).toLowerCase());
    if (status !== undefined) return status;
    if (of_client.test(stringOf(word))) return 400;
  }
  return undefined;
}

const nothing_said: Words = { message: '', code: null, type: null, param: null };

function wordsIn(value: unknown, levels = 4): Words | undefined {
  if (levels === 0) return undefined;
  if (Array.isArray(value)) return wordsIn(value[0], levels - 1);
  if (!isObject(value)) return undefined;
  const { error, response, choices } = value;
  if (typeof error === 'string' && error !== '') {
    const { message, ...more } = wordsOf(value);
    // Some write the code alone.
    const code = more.code ?? (word.test(error) ? error : null);
    return { ...more, code, message: message || error };
  }
  if (isObject(error)) {
    const inner = wordsOf(error);
    return { ...inner, code: inner.code ?? value.code ?? value.status };
  }
  if (Array.isArray(error)) return wordsIn({ error: error[0] }, levels - 1);
  if (isObject(response) && isObject(response.error)) return wordsIn(response, levels - 1);
  const failed = Array.isArray(choices) ? choices.find((one) => isSaid(one?.error)) : undefined;
  if (failed !== undefined) return wordsIn(failed, levels - 1);
  if ('base_resp' in value) {
    const { status_msg, status_code } = (value.base_resp ?? {}) as Body;
    const code = typeof status_code === 'number' ? String(status_code) : null;
    return { message: stringOf(status_msg), code, type: null, param: null };
  }
  return wordsOf(value);
}

function wordsOf(value: Body): Words {
  const { message, detail, errors, error_msg, Message, msg } = value;
  const said = [message, detail, errors, error_msg, Message, msg]
    .map((one) => textOf(one))
    .find(Boolean);
  const code = value.code ?? value.error_code ?? value.status_code ?? null;
  return {
    message: said ?? '',
    code,
    type: value.type ?? value.status ?? null,
    param: value.param,
  };
}

/** A text, or the texts of a list, as frameworks list what is wrong with a body. */
function textOf(value: unknown, levels = 4): string {
  if (levels === 0) return '';
  if (Array.isArray(value)) {
    const texts = value.slice(0, DETAILS_MAX).map((one) => textOf(one, levels - 1));
    return texts.filter(Boolean).join('; ');
  }
  if (!isObject(value)) return stringOf(value);
  const at = Array.isArray(value.loc) ? `${value.loc.join('.')}: ` : '';
  const said = stringOf(value.msg) || stringOf(value.message);
  if (said === '' && value.detail != null) return textOf(value.detail, levels - 1);
  return said === '' ? '' : at + said;
}

/** False for members that say "no error" in one way or another. */
function isSaid(value: unknown): boolean {
  if (Array.isArray(value)) return value.length > 0;
  if (isObject(value)) return Object.values(value).some(isSaid);
  return value != null && value !== '' && value !== false && value !== 0;
}

function baseCode({ base_resp }: Body): unknown {
  return isObject(base_resp) ? (base_resp.status_code ?? 0) : 0;
}

function isFlagged(value: unknown): boolean {
  const error = isObject(value) && isObject(value.error) ? value.error : {};
  const metadata = isObject(error.metadata) ? error.metadata : {};
  return 'flagged_input' in metadata || 'reasons' in metadata;
}
