import { type Faults, figure, withoutFaults } from './faults';
import { count } from './words';

export interface SpeechRequest {
  model: string;
  input: string;
  voice: string | { id: string };
  instructions?: string;
  response_format?: keyof typeof formats;
  speed?: number;
  stream_format?: 'audio' | 'sse';
}

const formats = {
  mp3: { content_type: 'audio/mpeg', bytes_per_second: 16_000 },
  opus: { content_type: 'audio/opus', bytes_per_second: 4_000 },
  aac: { content_type: 'audio/aac', bytes_per_second: 12_000 },
  flac: { content_type: 'audio/flac', bytes_per_second: 30_000 },
  wav: { content_type: 'audio/wav', bytes_per_second: 48_000 },
  pcm: { content_type: 'audio/pcm', bytes_per_second: 48_000 },
};
const TOKENS_PER_SECOND = 4;
const AUDIO_TOKENS_PER_SECOND = 20;
const PIECE_BYTES = 6_000;

/** Silence, as long as the text takes to say. */
export function speech(request: SpeechRequest): { bytes: Buffer; content_type: string } {
  const { content_type, bytes_per_second } = formats[request.response_format ?? 'mp3'];
  return { bytes: Buffer.alloc(Math.ceil(secondsOf(request) * bytes_per_second)), content_type };
}

/** The same as the `data` texts of a stream. */
export function speechFrames(request: SpeechRequest, faults: Faults): string[] {
  const { bytes } = speech(request);
  const frames: object[] = [];
  for (let at = 0; at < bytes.length; at += PIECE_BYTES) {
    const audio = bytes.subarray(at, at + PIECE_BYTES).toString('base64');
    frames.push({ type: 'speech.audio.delta', audio });
  }
  const input_tokens = figure(faults, 'prompt', count(request.input));
  const spoken = Math.ceil(secondsOf(request) * AUDIO_TOKENS_PER_SECOND);
  const output_tokens = figure(faults, 'completion', spoken);
  const usage = { input_tokens, output_tokens, total_tokens: input_tokens + output_tokens };
  frames.push({ type: 'speech.audio.done', ...(faults['no-usage'] ? {} : { usage }) });
  return frames.map((frame) => JSON.stringify(frame));
}

function secondsOf({ input, speed = 1 }: SpeechRequest): number {
  return count(withoutFaults(input)) / TOKENS_PER_SECOND / speed;
}
