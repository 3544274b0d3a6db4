import { AppError } from '../../domain/errors';
import { CHOICES_MAX } from '../../domain/ledger/calls';
import type { Body } from '../wire/values';
import { promptsOf } from './completions';

const INT_MAX = 2_147_483_647;
/**
 * The cap of an organization's output if neither the request nor the price has one, unless the
 * organization sets another.
 */
export const DEFAULT_MAX_COMPLETION_TOKENS = 4_096;
// The provider's own cap if a legacy completion says nothing.
// OpenAI's, where its document leaves it to the provider.
export const LEGACY_MAX_TOKENS = 16;

/** The most output that a chat allows, for all its choices; null if it says nothing. */
export function completionCap(body: Body): number | null {
  const cap = choiceCap(body);
  return cap === undefined ? null : Math.min(cap * triesOf(body), INT_MAX);
}

/**
 * How many answers a chat without a cap is paid for, each as long as the ledger allows; undefined
 * if it has a cap, or is for one answer. Throws 422 if it asks for more than are admitted.
 */
export function uncappedChoices(body: Body): number | undefined {
  const tries = triesOf(body);
  return tries === 1 || choiceCap(body) !== undefined ? undefined : tries;
}

/** The most output that a chat allows for each choice. */
function choiceCap(body: Body): number | undefined {
  const caps = [number(body, 'max_completion_tokens'), number(body, 'max_tokens')];
  const given = caps.filter((cap) => cap !== undefined);
  return given.length === 0 ? undefined : Math.max(...given);
}

/** Of `best_of` tries, which some providers of chats take too, all are paid for. */
function triesOf(body: Body): number {
  return Math.max(choices(body, 'n'), choices(body, 'best_of'));
}

/** How many choices a chat asks for. */
export function choicesOf(body: Body): number {
  return choices(body, 'n');
}

/** How many choices a legacy completion asks for: so many of each prompt. */
export function legacyChoices(body: Body): number {
  return choices(body, 'n') * promptsOf(body).count;
}

function choices(body: Body, name: string): number {
  const count = number(body, name) ?? 1;
  if (count <= CHOICES_MAX) return count;
  throw invalid(name, `"${name}" may be at most ${CHOICES_MAX}.`);
}

/** The cap of a message, which its wire demands; zero is legal, it warms a cache. */
export function messageCap(body: Body): number {
  const cap = number(body, 'max_tokens', 0);
  if (cap !== undefined) return cap;
  throw invalid('max_tokens', '"max_tokens" is missing: say how much the answer may have at most.');
}

/** The cap of a response; null if it says nothing. */
export function responseCap(body: Body): number | null {
  return number(body, 'max_output_tokens') ?? null;
}

/** The cap of a legacy completion: for all tries of all its prompts. */
export function legacyCap(body: Body): number {
  const { count } = promptsOf(body);
  const cap = number(body, 'max_tokens', 0) ?? LEGACY_MAX_TOKENS;
  return Math.min(cap * triesOf(body) * count, INT_MAX);
}

// Zero is "no limit" to some providers of chat, so it is not taken there.
function number(body: Body, name: string, least = 1): number | undefined {
  const value = body[name];
  if (value === undefined || value === null) return undefined;
  if (Number.isInteger(value) && (value as number) >= least && (value as number) <= INT_MAX) {
    return value as number;
  }
  throw invalid(name, `"${name}" must be a whole number from ${least} to ${INT_MAX}.`);
}

function invalid(param: string, message: string): AppError {
  return new AppError('invalid_field', message, { param });
}
