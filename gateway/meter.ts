import type { Duplex } from 'node:stream';
import { createBrotliDecompress, createGunzip, createInflate } from 'node:zlib';
import { type Frame, newSseState, readFrames, unfinished } from './sse';
import {
  type Body,
  chatAudio,
  chatText,
  endsChoice,
  isUsageOnly,
  openaiUsage,
  type Usage,
} from './usage';

// Text kept to be counted where usage never comes, and what is kept of a JSON answer to find its usage.
const TEXT_MAX_CHARACTERS = 1_048_576;
const JSON_MAX_BYTES = 1_048_576;
const ENDS_BYTES = 65_536;

/** What an answer was worth, as far as it came. */
export interface Measured {
  usage: Usage | undefined;
  /** The text delivered, for answers without usage. */
  text: string;
  /** The tokens of sound delivered, likewise. */
  audio_tokens: number;
  /** The stream said that it is over. */
  is_done: boolean;
  /** A choice came to its end. */
  has_finish: boolean;
}

export const nothing_measured: Measured = {
  usage: undefined,
  text: '',
  audio_tokens: 0,
  is_done: false,
  has_finish: false,
};

/** Reads a stream beside its bytes. */
export interface StreamMeter {
  /** Takes bytes from the upstream and gives the whole frames that go to the client. */
  push(chunk: Buffer): Buffer;
  /** The bytes of a frame that never ended. */
  rest(): Buffer;
  measured(): Measured;
}

/** The meter of a chat stream. `hides_usage` drops the extra chunk that a client did not ask for. */
export function createStreamMeter(hides_usage: boolean): StreamMeter {
  const state = newSseState();
  const found: Measured = { ...nothing_measured };
  let is_dropped = false;
  const isKept = (frame: Frame): boolean => {
    if (!frame.is_tail) is_dropped = readChunk(frame, found) && hides_usage;
    return !is_dropped;
  };
  return {
    push(chunk) {
      const frames = readFrames(state, chunk);
      const kept = frames.filter(isKept);
      // Frames that lie behind one another in one chunk, the usual case, go on as they came.
      if (kept.length === frames.length && kept.length > 0) return joined(chunk, kept);
      return Buffer.concat(kept.map(({ bytes }) => bytes));
    },
    rest: () => unfinished(state),
    measured: () => found,
  };
}

/** Reads a JSON answer beside its bytes, through its compression where there is one. */
export interface JsonMeter {
  push(chunk: Buffer): void;
  measured(): Promise<Measured>;
}

export function createJsonMeter(encoding: string | undefined): JsonMeter {
  const decoder = decoderOf(encoding);
  const kept = newEnds();
  if (decoder === undefined) {
    return { push: (chunk) => keep(kept, chunk), measured: async () => measureJson(kept) };
  }
  decoder.on('data', (chunk: Buffer) => keep(kept, chunk));
  const done = new Promise<void>((resolve) => decoder.once('close', resolve));
  decoder.on('error', () => decoder.destroy());
  return {
    push: (chunk) => void decoder.write(chunk),
    async measured() {
      decoder.end();
      await done;
      return measureJson(kept);
    },
  };
}

/** A decompressor for an upstream that compresses although it was not asked to. */
export function decoderOf(encoding: string | undefined): Duplex | undefined {
  if (encoding === 'gzip' || encoding === 'x-gzip') return createGunzip();
  if (encoding === 'br') return createBrotliDecompress();
  return encoding === 'deflate' ? createInflate() : undefined;
}

/** Takes one frame into account; true for the chunk that carries nothing but usage. */
function readChunk({ data }: Frame, found: Measured): boolean {
  if (data === undefined) return false;
  if (data === '[DONE]') {
    found.is_done = true;
    return false;
  }
  const chunk = objectOf(data);
  if (chunk === undefined) return false;
  found.usage = openaiUsage(chunk.usage) ?? found.usage;
  if (found.text.length < TEXT_MAX_CHARACTERS) found.text += chatText(chunk);
  found.audio_tokens += chatAudio(chunk);
  if (endsChoice(chunk)) found.has_finish = true;
  return isUsageOnly(chunk);
}

/** The bytes of successive frames, without a copy where they lie in the chunk itself. */
function joined(chunk: Buffer, frames: Frame[]): Buffer {
  const [first] = frames;
  if (first === undefined) return chunk.subarray(0, 0);
  if (frames.length === 1) return first.bytes;
  const length = frames.reduce((sum, { bytes }) => sum + bytes.length, 0);
  const start = first.bytes.byteOffset - chunk.byteOffset;
  const lies_in_chunk = first.bytes.buffer === chunk.buffer && start >= 0 && start < chunk.length;
  if (lies_in_chunk) return chunk.subarray(start, start + length);
  return Buffer.concat(frames.map(({ bytes }) => bytes));
}

interface Ends {
  chunks: Buffer[];
  bytes: number;
  /** The first part of an answer too long to keep. */
  head: Buffer | undefined;
}

function newEnds(): Ends {
  return { chunks: [], bytes: 0, head: undefined };
}

function keep(kept: Ends, chunk: Buffer): void {
  kept.chunks.push(chunk);
  kept.bytes += chunk.length;
  if (kept.bytes <= JSON_MAX_BYTES) return;
  const all = Buffer.concat(kept.chunks);
  kept.head ??= Buffer.from(all.subarray(0, ENDS_BYTES));
  const tail = Buffer.from(all.subarray(-ENDS_BYTES));
  kept.chunks = [tail];
  kept.bytes = tail.length;
}

function measureJson({ chunks, head }: Ends): Measured {
  const text = Buffer.concat(chunks).toString('utf8');
  if (head !== undefined) {
    const usage = usageIn(text) ?? usageIn(head.toString('utf8'));
    return { ...nothing_measured, usage, text };
  }
  const answer = objectOf(text);
  if (answer === undefined) return { ...nothing_measured, text };
  const audio_tokens = chatAudio(answer);
  return {
    ...nothing_measured,
    usage: openaiUsage(answer.usage),
    text: chatText(answer),
    audio_tokens,
  };
}

/** The usage object in a part of a JSON text too long to parse. */
function usageIn(part: string): Usage | undefined {
  const found = [...part.matchAll(/"usage"\s*:\s*(\{(?:[^{}]|\{[^{}]*\})*\})/g)].at(-1)?.[1];
  return found === undefined ? undefined : openaiUsage(objectOf(found));
}

function objectOf(text: string): Body | undefined {
  try {
    const value = JSON.parse(text) as unknown;
    return typeof value === 'object' && value !== null ? (value as Body) : undefined;
  } catch {
    return undefined;
  }
}
