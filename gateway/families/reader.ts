import type { Usage } from '../../domain/ledger/calls';
import type { Body } from '../wire/values';
import { nothing_seen, type Seen } from './fees';

/** The usage and texts of an answer, as far as it came. */
export interface Measured {
  usage: Told | undefined;
  /** The figures so far of an answer that would have repeated them at its end. */
  is_usage_partial: boolean;
  /** The bytes of the answer, without compression. */
  bytes: number;
  /** The first ones of a sound. */
  head?: Buffer;
  /** Those of the sound that its events hold. */
  sound_bytes?: number;
  /** The model that answered, as the answer names it. */
  model: string | undefined;
  /** The text delivered, for answers without usage. */
  text: string;
  /**
   * The text is the answer's bytes as they came, which could not be read as an answer: syntax, a
   * part, or no answer at all.
   */
  is_unread: boolean;
  /** The tokens of sound delivered, likewise. */
  audio_tokens: number;
  /** How long a sound lasts at least, by what was written down of it. */
  seconds_least: number;
  /** The stream said that it is over. */
  is_done: boolean;
  /** Every choice came to its end. */
  has_finish: boolean;
  /** Something came that makes it an answer: output of any kind, its end, or usage. */
  has_output: boolean;
  /** Something of value has reached the client: text, sound, a picture, a call, a search. */
  has_content: boolean;
  /** What the provider sent to say that it failed. */
  failed: Body | undefined;
  /** The number of the last event, in streams that number them. */
  sequence_number: number;
  /** What it tells of its bill beside the tokens. */
  seen: Seen;
  /** What the provider says that it cost: USD as decimal text; `unsound`: no amount. */
  cost_told: string | undefined;
}

export const nothing_measured: Measured = {
  usage: undefined,
  is_usage_partial: false,
  bytes: 0,
  model: undefined,
  text: '',
  is_unread: false,
  audio_tokens: 0,
  seconds_least: 0,
  is_done: false,
  has_finish: false,
  has_output: false,
  has_content: false,
  failed: undefined,
  sequence_number: 0,
  seen: nothing_seen,
  cost_told: undefined,
};

/** True if what was measured is an answer: output of any kind, its end, or usage that is told. */
export function isAnswer({ has_output, usage, is_usage_partial, audio_tokens }: Measured): boolean {
  return has_output || audio_tokens > 0 || (usage !== undefined && !is_usage_partial);
}

/** Usage as the provider told it. A count of 0 is one that it did not tell. */
export interface Told extends Usage {
  /** All tokens, where it told nothing else of them. */
  total_tokens?: number;
  /** How often the model spoke, each time up to the request's cap; once if absent. */
  rounds?: number;
  /** Those of `cache_write_tokens` of which it does not say for how long they are kept. */
  cache_write_untold_tokens?: number;
  /** Output that the cap does not count: what shortened a conversation. */
  uncapped_tokens?: number;
}

/** How the answers of one family are read beside their bytes. */
export interface Reader {
  /** Takes a whole JSON answer into account. */
  readAnswer(answer: Body, found: Measured): void;
  /** Takes an answer of plain text into account, if the family has such answers. */
  readText?(text: string, found: Measured): void;
  /** Reads a usage object; undefined if it says nothing. */
  usageOf(value: unknown): Told | undefined;
  /**
   * Opens a stream of so many choices: what takes its events into account, and is true for one that
   * carries nothing but usage.
   */
  openStream(found: Measured, choices: number): (event: Body) => boolean;
}

// Text is kept up to here, to be counted if usage never comes.
const TEXT_MAX_CHARACTERS = 1_048_576;

/** Keeps text that was delivered, up to a bound, to count it if usage never comes. */
export function addDelivered(found: Measured, text: string): void {
  if (text === '') return;
  found.has_output = true;
  found.has_content = true;
  if (found.text.length < TEXT_MAX_CHARACTERS) found.text += text;
}
