import { cut } from '../../../domain/texts';
import { type Body, isObject, stringOf } from '../../wire/values';
import { wrong } from '../input';

type IsSilent = (value: unknown) => boolean;

const always: IsSilent = () => true;
const is =
  (silent: unknown): IsSilent =>
  (value) =>
    value === silent;

/** The members of a chat that its translation says in the other wire's words. */
export const said: ReadonlySet<string> = new Set([
  'model',
  'messages',
  'max_completion_tokens',
  'max_tokens',
  'temperature',
  'top_p',
  'stop',
  'stream',
  'stream_options',
  'tools',
  'tool_choice',
  'parallel_tool_calls',
  'response_format',
  'reasoning_effort',
  'service_tier',
  // Gemini's models keep a cache by themselves, and have no word for it.
  'cache_control',
]);

/**
 * The members without a word on the other wire that may be left out, and with which values: those
 * that change no answer. Every other member is refused.
 */
export const left_out: ReadonlyMap<string, IsSilent> = new Map([
  // Who asks, and what is noted beside the answer.
  ['user', always],
  ['safety_identifier', always],
  ['metadata', always],
  ['store', always],
  // What makes the same answer come sooner.
  ['prediction', always],
  ['prompt_cache_key', always],
  ['prompt_cache_options', always],
  ['prompt_cache_retention', always],
  // A wish that no provider promises to fulfil.
  ['seed', always],
  // What says the same as its absence.
  ['n', is(1)],
  ['best_of', is(1)],
  ['frequency_penalty', is(0)],
  ['presence_penalty', is(0)],
  ['logprobs', is(false)],
  ['top_logprobs', is(0)],
  ['logit_bias', (value) => isObject(value) && Object.keys(value).length === 0],
  ['modalities', (value) => Array.isArray(value) && value.every((one) => one === 'text')],
  ['verbosity', is('medium')],
  ['inference_geo', is('global')],
]);

/** How much thought may be asked for, on the wires that have the same words for it. */
export const efforts: ReadonlySet<unknown> = new Set(['low', 'medium', 'high', 'xhigh', 'max']);

/** True for a value of a member that says the same as its absence. */
export function isSilent(name: string, value: unknown): boolean {
  if (value == null || (name === 'parallel_tool_calls' && value === true)) return true;
  return left_out.get(name)?.(value) === true;
}

const nothing_more: ReadonlySet<string> = new Set();

/**
 * Refuses the members that the other wire has no word for and that would change the answer. `more`
 * are those that one wire says beside those that all say.
 */
export function refuseOthers(body: Body, more: ReadonlySet<string> = nothing_more): void {
  for (const [name, value] of Object.entries(body)) {
    if (said.has(name) || more.has(name) || isSilent(name, value)) continue;
    throw unavailable(shown(name), left_out.has(name) ? `This "${name}"` : `"${shown(name)}"`);
  }
}

const SHOWN_CHARACTERS = 64;

/** As much of a client's text as an error repeats. */
export function shown(value: unknown): string {
  return cut(stringOf(value), SHOWN_CHARACTERS);
}

/** The refusal of what the other wire has no word for. */
export function unavailable(param: string, what: string) {
  return wrong(param, `${what} is not available from the provider of this model.`);
}
