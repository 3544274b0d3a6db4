import type { IncomingMessage, ServerResponse } from 'node:http';
import {
  answeredByFault,
  dataFrames,
  faultsOf,
  figure,
  refuse,
  sendBytes,
  sendFrames,
  sendJson,
} from './faults';
import { count, deltas } from './words';

// The price of one model is by its sound's length, that of the other by tokens.
const transcription_models = ['whisper-1', 'gpt-4o-mini-transcribe'] as const;
const by_length = new Set(['whisper-1']);
const TOKENS_PER_SECOND = 10;
const WORDS = 'This sound is silent.';

interface Transcription {
  seconds: number;
  text: string;
  usage: object;
}

/** POST /v1/audio/transcriptions: a transcript of silence, as long as the WAV file is. */
export async function transcribe(given: {
  req: IncomingMessage;
  res: ServerResponse;
  bytes: Buffer;
  onForm: (body: object) => void;
  onFrame: () => void;
}): Promise<void> {
  const { req, res } = given;
  const form = await formOf(req, given.bytes);
  if (form === undefined) return refuse(res, 400, 'The body is not a form.');
  const texts = Object.fromEntries([...form].filter(([, value]) => typeof value === 'string'));
  given.onForm(texts);
  const file = form.get('file');
  const { model, prompt = '', response_format = 'json', stream } = texts as Record<string, string>;
  if (!(transcription_models as readonly string[]).includes(model ?? ''))
    return refuse(res, 404, `There is no model ${model}.`, 'model_not_found');
  if (!(file instanceof File)) return refuse(res, 400, 'file is required.');
  const faults = faultsOf(req.headers['x-sandbox-fault'] as string | undefined, prompt);
  if (answeredByFault(res, faults)) return;
  const written = await write(model ?? '', file, figure(faults, 'completion', count(WORDS)));
  if (stream === 'true' && !by_length.has(model ?? '')) {
    const frames = framesOf(written, Boolean(faults['no-usage']));
    return sendFrames(res, dataFrames(frames), faults, given.onFrame);
  }
  const plain = plainText(response_format, written);
  if (plain !== undefined)
    return sendBytes(res, Buffer.from(plain), faults, 'text/plain; charset=utf-8');
  const { text, seconds, usage } = written;
  const more = response_format === 'verbose_json' ? { duration: seconds, segments: [] } : {};
  return sendJson(res, { text, ...more, ...(faults['no-usage'] ? {} : { usage }) }, faults);
}

async function formOf(req: IncomingMessage, bytes: Buffer): Promise<FormData | undefined> {
  const headers = { 'content-type': req.headers['content-type'] ?? '' };
  return new Response(new Uint8Array(bytes), { headers }).formData().catch(() => undefined);
}

async function write(model: string, file: File, output_tokens: number): Promise<Transcription> {
  const seconds = secondsOf(Buffer.from(await file.arrayBuffer()));
  if (by_length.has(model)) return { seconds, text: WORDS, usage: { type: 'duration', seconds } };
  const audio_tokens = Math.ceil(seconds * TOKENS_PER_SECOND);
  const input_token_details = { audio_tokens, text_tokens: 0 };
  const total_tokens = audio_tokens + output_tokens;
  const usage = { type: 'tokens', input_tokens: audio_tokens, output_tokens, total_tokens };
  return { seconds, text: WORDS, usage: { ...usage, input_token_details } };
}

/** The length of a WAV file by its head; a second for all else. */
function secondsOf(file: Buffer): number {
  if (file.length < 44 || file.toString('latin1', 0, 4) !== 'RIFF') return 1;
  return (file.length - 44) / file.readUInt32LE(28);
}

function framesOf({ text, usage }: Transcription, is_silent: boolean): string[] {
  const pieces = deltas(text, {}).map((delta) => ({ type: 'transcript.text.delta', delta }));
  const done = { type: 'transcript.text.done', text, ...(is_silent ? {} : { usage }) };
  return [...pieces, done].map((frame) => JSON.stringify(frame));
}

function plainText(format: string, { text, seconds }: Transcription): string | undefined {
  const end = new Date(seconds * 1_000).toISOString().slice(11, 23);
  if (format === 'text') return `${text}\n`;
  if (format === 'srt') return `1\n00:00:00,000 --> ${end.replace('.', ',')}\n${text}\n\n`;
  if (format === 'vtt') return `WEBVTT\n\n00:00:00.000 --> ${end}\n${text}\n`;
  return undefined;
}
