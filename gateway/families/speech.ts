import type { Units, Usage } from '../../domain/ledger/calls';
import { type Body, countOf, isObject, stringOf } from '../wire/values';
import { type Input, newInput, wrong } from './input';
import type { Measured, Reader } from './reader';
import { withinTotals } from './usage';

// Two and a half words a second, in any language about as many tokens; rather too slow, as settling
// gives back.
const TOKENS_PER_SECOND = 3;
const SPEED_MIN = 0.25;
const SPEED_MAX = 4;
// Of the uncompressed formats, 24,000 samples of two bytes; the size of other formats does not give
// their length.
const BYTES_PER_SECOND = 48_000;
const uncompressed = new Set(['pcm', 'wav']);

/** The input of a speech. */
export function speechInput({ input, instructions }: Body): Input {
  if (typeof input !== 'string' || input === '') {
    throw wrong('input', '"input" must be the text to be spoken.');
  }
  const found = newInput();
  found.texts.push(input);
  if (instructions != null) found.texts.push(stringOf(instructions));
  return found;
}

/** The characters of a speech, and how long it may take at most. */
export function speechUnits({ input, speed }: Body, tokens: number): Units {
  let characters = 0;
  for (const _ of stringOf(input)) characters += 1;
  return { characters, seconds: Math.ceil(tokens / TOKENS_PER_SECOND / slowest(speed)) };
}

/**
 * How long so many bytes of speech last, by what the head of a WAV says of them; undefined if their
 * format does not say.
 */
export function secondsIn(
  { response_format }: Body,
  bytes: number,
  head?: Buffer,
): number | undefined {
  const format = stringOf(response_format);
  if (!uncompressed.has(format)) return undefined;
  return bytes / ((format === 'wav' && head && rateIn(head)) || BYTES_PER_SECOND);
}

// From telephones to studios; what is said beyond is no rate.
const RATE_MIN = 8_000;
const RATE_MAX = 1_536_000;

/** The bytes of a second, as a WAV says them; undefined for what is none. */
function rateIn(head: Buffer): number | undefined {
  const words = head.toString('latin1');
  if (head.length < 32 || !/^RIFF.{4}WAVEfmt /s.test(words)) return undefined;
  const rate = head.readUInt32LE(28);
  return rate >= RATE_MIN && rate <= RATE_MAX ? rate : undefined;
}

// Some models do not speak faster when they are asked to.
function slowest(speed: unknown): number {
  if (speed === undefined || speed === null) return 1;
  if (typeof speed === 'number' && speed >= SPEED_MIN && speed <= SPEED_MAX) {
    return Math.min(speed, 1);
  }
  throw wrong('speed', `"speed" must be a number from ${SPEED_MIN} to ${SPEED_MAX}.`);
}

/** How speech is read: its bytes say nothing, the last event of its stream has the usage. */
export const speechReader: Reader = {
  readAnswer: () => undefined,
  usageOf: speechUsage,
  openStream: (found) => (event) => {
    readEvent(event, found);
    return false;
  },
};

function readEvent({ type, usage, audio }: Body, found: Measured): void {
  if (type === 'speech.audio.done') {
    found.usage = speechUsage(usage);
    found.is_done = true;
    found.has_output = true;
  } else if (type === 'speech.audio.delta') {
    found.has_output = true;
    const bytes = Buffer.byteLength(stringOf(audio), 'base64');
    found.sound_bytes = (found.sound_bytes ?? 0) + bytes;
  }
}

/** A usage object: text in, sound out. */
function speechUsage(value: unknown): Usage | undefined {
  if (!isObject(value)) return undefined;
  const completion_tokens = countOf(value.output_tokens);
  if (completion_tokens === 0) return undefined;
  return withinTotals({
    prompt_tokens: countOf(value.input_tokens),
    completion_tokens,
    cached_tokens: 0,
    cache_write_tokens: 0,
    reasoning_tokens: 0,
    audio_input_tokens: 0,
    audio_output_tokens: completion_tokens,
  });
}
