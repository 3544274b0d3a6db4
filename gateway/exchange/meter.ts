import type { Duplex } from 'node:stream';
import { createBrotliDecompress, createGunzip, createInflate } from 'node:zlib';
import type { Usage } from '../../domain/ledger/calls';
import { type Measured, nothing_measured, type Reader } from '../families/reader';
import type { StreamGuard } from '../policy/stream-guard';
import { type Frame, lastFrame, newSseState, readFrames, unfinished } from '../wire/sse';
import { type Body, objectIn } from '../wire/values';

// What is kept of a JSON answer to find its usage.
const JSON_MAX_BYTES = 1_048_576;
const ENDS_BYTES = 65_536;

/** Reads a stream beside its bytes. */
interface StreamMeter {
  /** Takes bytes from the upstream and gives the whole frames that go to the client. */
  push(chunk: Buffer): Buffer;
  /** The stream is over: what is left of it, a frame that never ended. */
  rest(): Buffer;
  measured(): Measured;
}

/**
 * The meter of a stream. `hides_usage` drops the extra chunk that a client did not ask for; `guard`
 * holds back and drops more.
 */
export function createStreamMeter(
  reader: Reader,
  hides_usage: boolean,
  guard?: StreamGuard,
): StreamMeter {
  const state = newSseState();
  const found: Measured = { ...nothing_measured };
  const readEvent = reader.openStream(found);
  let is_dropped = false;
  const isKept = (frame: Frame): boolean => {
    if (!frame.is_tail) is_dropped = readFrame(frame, found, readEvent) && hides_usage;
    return !is_dropped;
  };
  return {
    push(chunk) {
      const frames = readFrames(state, chunk);
      const kept = frames.filter(isKept);
      if (guard !== undefined) return guard.push(kept);
      // Frames that lie behind one another in one chunk, the usual case, go on as they came.
      if (kept.length === frames.length && kept.length > 0) return joined(chunk, kept);
      return Buffer.concat(kept.map(({ bytes }) => bytes));
    },
    rest: () => (guard === undefined ? unfinished(state) : guard.end(lastFrame(state))),
    measured: () => found,
  };
}

/** Reads a whole answer beside its bytes. */
export interface AnswerMeter {
  push(chunk: Buffer): void;
  measured(): Promise<Measured>;
}

/** The meter of an answer whose bytes are not read, only counted. */
export function createByteMeter(): AnswerMeter {
  const found = { ...nothing_measured };
  return {
    push(chunk) {
      found.bytes += chunk.length;
    },
    measured: async () => found,
  };
}

/** The meter of JSON, through its compression if there is one. */
export function createJsonMeter(reader: Reader, encoding: string | undefined): AnswerMeter {
  const decoder = decoderOf(encoding);
  const kept = newEnds();
  if (decoder === undefined) {
    return { push: (chunk) => keep(kept, chunk), measured: async () => measureJson(reader, kept) };
  }
  decoder.on('data', (chunk: Buffer) => keep(kept, chunk));
  const done = new Promise<void>((resolve) => decoder.once('close', resolve));
  decoder.on('error', () => decoder.destroy());
  return {
    push: (chunk) => void decoder.write(chunk),
    async measured() {
      decoder.end();
      await done;
      return measureJson(reader, kept);
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
function readFrame(frame: Frame, found: Measured, readEvent: (event: Body) => boolean): boolean {
  const { data } = frame;
  if (data === undefined) return false;
  if (data === '[DONE]') {
    found.is_done = true;
    return false;
  }
  const event = objectIn(data);
  if (event === undefined) return false;
  frame.json = event;
  return readEvent(event);
}

/** The bytes of successive frames, without a copy if they lie in the chunk itself. */
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

function measureJson(reader: Reader, { chunks, head }: Ends): Measured {
  const text = Buffer.concat(chunks).toString('utf8');
  if (head !== undefined) {
    const usage = usageIn(reader, text) ?? usageIn(reader, head.toString('utf8'));
    return { ...nothing_measured, usage, text, is_unread: true };
  }
  const answer = objectIn(text);
  const found = { ...nothing_measured };
  if (answer === undefined) {
    found.text = text;
    found.is_unread = true;
    reader.readText?.(text, found);
  } else reader.readAnswer(answer, found);
  return found;
}

/** The usage object in a part of a JSON text too long to parse. */
function usageIn(reader: Reader, part: string): Usage | undefined {
  const found = [...part.matchAll(/"usage"\s*:\s*(\{(?:[^{}]|\{[^{}]*\})*\})/g)].at(-1)?.[1];
  return found === undefined ? undefined : reader.usageOf(objectIn(found));
}
