import { modelOf } from './body';
import type { Call, ClientRequest } from './call';
import { readForm } from './forms';
import { type Input, newInput, wrong } from './input';
import { addDelivered, type Measured, type Reader } from './reader';
import type { Units } from './speech';
import {
  type Body,
  isObject,
  nothing_used,
  stringOf,
  type Usage,
  whole,
  withinTotals,
} from './usage';

// Rather more than speech has, as settling gives back: of sound that goes in, and of words that come out.
const SOUND_TOKENS_PER_SECOND = 20;
const WORD_TOKENS_PER_SECOND = 5;
const formats = new Set(['json', 'text', 'srt', 'verbose_json', 'vtt', 'diarized_json']);

/** Reads a form with a sound file; the file comes before the model as official clients send it. */
export async function readTranscription({ ctx, running, gateway }: Call): Promise<ClientRequest> {
  const { fields, file, outgoing } = await readForm(ctx.req, running.settings.audio_limit_bytes);
  if (file.size === 0)
    throw wrong('file', '"file" is empty: send the sound that is to be written.');
  const { response_format = 'json', stream = 'false' } = fields;
  if (!formats.has(stringOf(response_format))) {
    throw wrong('response_format', `"response_format" must be one of ${[...formats].join(', ')}.`);
  }
  if (stream !== 'true' && stream !== 'false') {
    throw wrong('stream', '"stream" must be true or false.');
  }
  const bytes = new Uint8Array(await file.arrayBuffer());
  const seconds = await gateway.sound.lasts({ bytes, type: file.type, name: file.name });
  const body = { ...fields, seconds };
  return {
    raw: outgoing.bytes,
    body,
    is_stream: stream === 'true',
    model: modelOf(body),
    max_completion_tokens: Math.ceil(seconds * WORD_TOKENS_PER_SECOND) + WORD_TOKENS_PER_SECOND,
    outgoing,
  };
}

/** The input of a transcription: its sound, and the words that lead it. */
export function transcriptionInput({ prompt, seconds, 'keywords[]': keywords }: Body): Input {
  const input = newInput(Math.ceil((seconds as number) * SOUND_TOKENS_PER_SECOND));
  for (const text of [prompt, ...(Array.isArray(keywords) ? keywords : [])]) {
    if (typeof text === 'string') input.texts.push(text);
  }
  return input;
}

export function transcriptionUnits({ seconds }: Body): Units {
  return { characters: 0, seconds: seconds as number };
}

/** How transcriptions are read: usage in tokens or in seconds, in JSON or in the last event; plain texts tell none. */
export const transcriptionReader: Reader = {
  readAnswer: readTranscript,
  usageOf: transcriptionUsage,
  openStream: (found) => (event) => {
    const type = stringOf(event.type);
    if (type === 'transcript.text.delta') addDelivered(found, stringOf(event.delta));
    else if (type === 'transcript.text.done') {
      readTranscript(event, found);
      found.is_done = true;
    } else if (event.error != null) found.has_failed = true;
    return false;
  },
};

function readTranscript(answer: Body, found: Measured): void {
  found.usage = transcriptionUsage(answer.usage);
  // Told by its length, the words do not count.
  found.text = found.usage?.seconds ? '' : stringOf(answer.text);
}

function transcriptionUsage(value: unknown): Usage | undefined {
  if (!isObject(value)) return undefined;
  if (value.type === 'duration') {
    const seconds = Number(value.seconds);
    return seconds > 0 && Number.isFinite(seconds) ? { ...nothing_used, seconds } : undefined;
  }
  const prompt_tokens = whole(value.input_tokens);
  if (prompt_tokens === 0) return undefined;
  const details = isObject(value.input_token_details) ? value.input_token_details : {};
  return withinTotals({
    ...nothing_used,
    prompt_tokens,
    completion_tokens: whole(value.output_tokens),
    audio_input_tokens: whole(details.audio_tokens),
  });
}
