import type { Units, Usage } from '../../domain/ledger/calls';
import { type Body, isObject, stringOf } from '../wire/values';
import { readForm } from './forms';
import { type Input, newInput, wrong } from './input';
import { addDelivered, type Measured, type Reader } from './reader';
import { type ArrivingRequest, type ClientRequest, modelOf } from './request';
import { lengthOf, nothing_used, openaiUsage } from './usage';

// Rather more than speech has, as settling gives back: of sound that goes in, and of words that
// come out.
const SOUND_TOKENS_PER_SECOND = 20;
const WORD_TOKENS_PER_SECOND = 5;
// Written words take a while to say. Models write a window of sound at a time, and may place its
// words anywhere in it.
const CHARACTERS_PER_SECOND_MAX = 30;
const WINDOW_SECONDS = 30;
const cue = /^(?:\d+:)?\d\d:\d\d[.,]\d{3} --> (?:(\d+):)?(\d\d):(\d\d)[.,](\d{3})/;
// Some providers hear these in the place of the file: Mistral `file_id` and `file_url`, Groq `url`.
const elsewhere = /^(?:file[_-]?(?:id|url)|url)(?:\[\])?$/i;
const formats = new Set(['json', 'text', 'srt', 'verbose_json', 'vtt', 'diarized_json']);

/** Reads a form with a sound file; the file comes before the model as official clients send it. */
export async function readTranscription({
  req,
  arrival,
  audio_limit_bytes,
  sound,
}: ArrivingRequest): Promise<ClientRequest> {
  const { fields, file, outgoing, parts } = await readForm(req, audio_limit_bytes, arrival);
  if (file.bytes.length === 0)
    throw wrong('file', '"file" is empty: send the sound that is to be written.');
  const other = Object.keys(fields).find((name) => elsewhere.test(name));
  if (other !== undefined)
    throw wrong(other, `Leave "${other}" out: the sound that is written is the part "file".`);
  const { response_format = 'json', stream = 'false' } = fields;
  if (!formats.has(stringOf(response_format))) {
    throw wrong('response_format', `"response_format" must be one of ${[...formats].join(', ')}.`);
  }
  if (stream !== 'true' && stream !== 'false') {
    throw wrong('stream', '"stream" must be true or false.');
  }
  const { seconds, seconds_most } = await sound.lasts(file);
  const body = { ...fields, seconds, seconds_most };
  return {
    raw: outgoing.bytes,
    body,
    is_stream: stream === 'true',
    model: modelOf(body),
    max_completion_tokens: Math.ceil(seconds * WORD_TOKENS_PER_SECOND) + WORD_TOKENS_PER_SECOND,
    outgoing,
    parts,
  };
}

/** The input of a transcription: its sound, and the words that lead it. */
export function transcriptionInput(body: Body): Input {
  const { prompt, seconds, 'keywords[]': keywords } = body;
  const input = newInput(Math.ceil((seconds as number) * SOUND_TOKENS_PER_SECOND));
  input.sound_tokens = input.tokens;
  // The provider may hear more than its file says.
  input.has_foreign = mostSeconds(body) > (seconds as number);
  for (const text of [prompt, ...(Array.isArray(keywords) ? keywords : [])]) {
    if (typeof text === 'string') input.texts.push(text);
  }
  return input;
}

/** How long its sound may be at most. */
export function mostSeconds({ seconds_most }: Body): number {
  return seconds_most as number;
}

/** The units that a transcription is estimated by: the seconds of its file. */
export function transcriptionUnits({ seconds }: Body): Units {
  return { characters: 0, seconds: seconds as number };
}

/**
 * How transcriptions are read: usage in tokens, in seconds or in both, in JSON or in the last
 * event; plain texts have none. OpenAI's streams tell `transcript.text.delta` and
 * `transcript.text.done`, those of Mistral `transcription.text.delta` and `transcription.done`.
 */
export const transcriptionReader: Reader = {
  readAnswer: readTranscript,
  readText: readPlain,
  usageOf: transcriptionUsage,
  openStream(found) {
    let has_deltas = false;
    return (event) => {
      const type = stringOf(event.type);
      if (type === 'transcript.text.delta' || type === 'transcription.text.delta') {
        has_deltas = true;
        addDelivered(found, stringOf(event.delta) || stringOf(event.text));
      } else if (type === 'transcript.text.segment' || type === 'transcription.segment') {
        // Segments may repeat the words of the deltas.
        if (!has_deltas) addDelivered(found, stringOf(event.text));
      } else if (type === 'transcript.text.done' || type === 'transcription.done') {
        const { text } = found;
        readTranscript(event, found);
        // All that was delivered on the way counts, even if the last event repeats less.
        if (!found.usage?.seconds && found.text.length < text.length) {
          found.text = text;
          found.seconds_least = leastFor(text, 0);
        }
        found.is_done = true;
      }
      return false;
    };
  },
};

function readTranscript(answer: Body, found: Measured): void {
  found.usage = transcriptionUsage(answer.usage) ?? duration(answer.duration);
  // Told by its length, the words do not count.
  found.text = found.usage?.seconds ? '' : stringOf(answer.text);
  found.seconds_least = leastFor(found.text, 0);
  if (typeof answer.text === 'string') found.has_output = true;
}

/**
 * The words of plain text or of subtitles, without the times of those: the last one says how long
 * the sound is at least.
 */
function readPlain(text: string, found: Measured): void {
  if (no_words.test(text) || isJson(text)) return;
  const words: string[] = [];
  let ends_at = 0;
  for (const line of text.split(/\r\n|\n|\r/)) {
    const [is_cue, hours = 0, minutes, seconds, milliseconds] = cue.exec(line) ?? [];
    if (is_cue === undefined) words.push(line);
    else {
      const end = Number(hours) * 3_600 + Number(minutes) * 60 + Number(seconds);
      ends_at = Math.max(ends_at, end + Number(milliseconds) / 1_000);
    }
  }
  const said = ends_at === 0 ? words : words.filter((line) => !/^(?:\d+|WEBVTT.*)?$/.test(line));
  found.text = said.join('\n');
  found.is_unread = false;
  found.has_output = true;
  found.seconds_least = leastFor(found.text, ends_at);
}

// An object that is no transcript, or a part of one, or a page.
const no_words = /^\s*(?:\{\s*["}]|\[\s*\{\s*["}]|<!doctype html|<html)/i;

/** True for JSON from end to end; words may begin with a bracket, or be a number. */
function isJson(text: string): boolean {
  if (!/^\s*(?:\[|null|true|false)/.test(text)) return false;
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

function leastFor(text: string, ends_at: number): number {
  const seconds = Math.max(ends_at, text.length / CHARACTERS_PER_SECOND_MAX);
  return Math.max(0, seconds - WINDOW_SECONDS);
}

/** Usage in seconds, in tokens, or in both, as Mistral tells it. */
function transcriptionUsage(value: unknown): Usage | undefined {
  if (isObject(value) && value.type === 'duration') return duration(value.seconds);
  return openaiUsage(value);
}

function duration(value: unknown): Usage | undefined {
  const seconds = lengthOf(value);
  return seconds > 0 ? { ...nothing_used, seconds } : undefined;
}
