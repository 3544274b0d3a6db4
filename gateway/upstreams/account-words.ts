import { stringOf } from '../wire/values';

// In which words providers say whose fault a refusal is: the account's, or the request's.

interface Said {
  message: string;
  code: unknown;
  type: unknown;
  param?: unknown;
}

// Codes and types that speak of this gateway's account: its money, its key, its rights.
const of_account = new RegExp(
  `^(?:${[
    'insufficient_(?:user_)?(?:quota|balance|credits?|funds)',
    'billing_[a-z_]+',
    'payment_required',
    '(?:exceeded_current_)?quota(?:_exceeded)?(?:_error)?',
    'credit_balance_too_low',
    'account_[a-z_]+',
    'arrearage',
    '(?:invalid|incorrect|missing|expired)_api_key',
    'invalid_authentication(?:_error)?',
    'authentication_error',
    'unauthenticated',
    'unauthorized',
    'permission_(?:error|denied)',
    'access_(?:denied|terminated)',
    'organization_(?:disabled|restricted|deactivated)',
    'unsupported_country_region_territory',
    // Of providers that number what is wrong: no money, a refused key.
    '1004|1008|1113',
  ].join('|')})$`,
  'i',
);

// Where code and type say nothing of it: how the message of a provider begins, by its status.
const account_messages: readonly (readonly [number, RegExp])[] = [
  [400, /^(?:your )?credit balance is too low/i],
  [400, /^(?:this|your) organization has been disabled/i],
  [400, /^api key (?:not valid|expired)/i],
  [400, /^you have reached your specified api usage limits/i],
  [400, /^gemini api free tier is not available/i],
  [400, /^your organization must be verified/i],
  [412, /^account .{0,120} is suspended/i],
  [429, /^insufficient balance/i],
  [429, /^your account is in arrears/i],
  [429, /^your team .{0,120}(?:credits|spending limit)/i],
  [400, /^access denied, please make sure your account/i],
  [429, /^you exceeded your current quota/i],
  [429, /^your account .{0,80}(?:suspended|balance|quota)/i],
];

// What looks like a refusal of the account by its status and speaks of the request: how the message
// begins, and what a client is told if it goes on with names of the account.
const request_messages: readonly { begins: RegExp; retold?: string }[] = [
  // Bedrock, of a model that keeps no cache (anomalyco/opencode#782).
  { begins: /^you invoked an unsupported model or your request did not allow prompt caching/i },
  // xAI, of a prompt; the team and the id of the key follow (UKGovernmentBEIS/inspect_ai#2267).
  { begins: /^content violates usage guidelines/i, retold: 'Content violates usage guidelines.' },
  // Google, of files and caches of somebody else's that a request names.
  { begins: /^you do not have permission to access the (?:file|cachedcontent)\b/i },
  { begins: /^cachedcontent not found/i },
  { begins: /^permission denied while accessing input file/i },
  {
    begins: /^\S{1,200} does not have storage\.objects\.get access/i,
    retold: 'The provider has no access to a file that the request names.',
  },
];

/**
 * True if a code, a type or a message speaks of this gateway's account. The message may repeat the
 * request, so only its beginning is looked at, and only where a provider is known to say it so.
 */
export function speaksOfAccount({ code, type, message }: Said, status: number): boolean {
  if (of_account.test(stringOf(code)) || of_account.test(stringOf(type))) return true;
  return account_messages.some(([of, begins]) => of === status && begins.test(message));
}

// OpenAI, of what it gives to organizations that it has verified: summaries of reasoning, streams
// of some models, models of pictures. The others' requests are served.
const of_option = /^your organization must be verified to (?:generate|stream|use)\b/i;
// OpenRouter, of what this request may cost at most: smaller ones are served
// (can1357/oh-my-pi#9569, anomalyco/opencode#12219).
const of_size = /^(?:this request requires more credits, or fewer max_tokens|prompt tokens limit)/i;
// Google, of each window that is used up, that of a minute too (continuedev/continue#10085).
const of_quota = /^you exceeded your current quota\b/i;

/**
 * Undefined unless a message speaks of this gateway's account, but of one option of the request or
 * of the next seconds only: what others ask, or what is asked later, is served. `retold` names no
 * account, and `status` in the place of one that would speak of the client's money; `waits` says
 * that the provider tells when to ask again.
 */
export function aboutMoment(
  { message, code, type, param }: Said,
  { status, waits }: { status: number; waits: boolean },
): { retold: string; status?: number } | undefined {
  if (of_option.test(message) && (status === 400 || status === 403)) {
    const option = stringOf(param) === '' ? 'what this request asks for' : `"${stringOf(param)}"`;
    return { retold: `The provider does not serve ${option} to this gateway.` };
  }
  if (of_size.test(message) && status === 402) {
    const words = 'The provider serves this gateway no request of this size now. Ask for less.';
    return { retold: words, status: 400 };
  }
  if (!waits || status !== 429 || !of_quota.test(message)) return undefined;
  if (of_account.test(stringOf(code)) || of_account.test(stringOf(type))) return undefined;
  return { retold: 'The provider takes no more requests of this gateway for a moment.' };
}

/**
 * Undefined unless a message speaks of the request whatever its status and code say: one tenant's
 * request must not shut a target for all. `retold` stands in the place of words that name the
 * account.
 */
export function aboutRequest(message: string): { retold?: string } | undefined {
  return request_messages.find(({ begins }) => begins.test(message));
}
