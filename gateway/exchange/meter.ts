import type { Duplex } from 'node:stream';
import { createBrotliDecompress, createGunzip, createInflate } from 'node:zlib';
import { type Measured, nothing_measured, type Reader, type Told } from '../families/reader';
import type { StreamGuard } from '../policy/stream-guard';
import { saysFailure } from '../upstreams/failures';
import { isNoEvent } from '../upstreams/no-event';
import { type Frame, lastFrame, newSseState, readFrames } from '../wire/sse';
import { type Body, objectIn } from '../wire/values';

const nothing = Buffer.alloc(0);

/** What is kept of a JSON answer to be judged whole; of a longer one only its ends are. */
export const WHOLE_MAX_BYTES = 32 * 1_048_576;
const ENDS_BYTES = 65_536;

/** Reads a stream beside its bytes. */
interface StreamMeter {
  /** Takes bytes from the upstream and gives the whole frames that go to the client. */
  push(chunk: Buffer): Buffer;
  /** The stream is over: reads what is left of it, a frame that lacks its end. */
  readRest(): void;
  /** That frame, if it goes to the client. */
  rest(): Buffer;
  measured(): Measured;
}

interface StreamOptions {
  /** Drops the extra chunk of usage that a client did not ask for. */
  hides_usage: boolean;
  /** True for words about a failure that the client is not told. */
  hidesFailure?: (said: Body, frame: Frame) => boolean;
  /** A stream of so many is whole once all have come to their end. */
  choices?: number;
  /** Holds back and drops more. */
  guard?: StreamGuard | undefined;
}

/** The meter of a stream. */
export function createStreamMeter(
  reader: Reader,
  { hides_usage, hidesFailure, choices = 1, guard }: StreamOptions,
): StreamMeter {
  const state = newSseState();
  const found: Measured = { ...nothing_measured };
  const readEvent = reader.openStream(found, choices);
  let is_dropped = false;
  let last: Frame | undefined;
  const isKept = (frame: Frame): boolean => {
    if (frame.is_tail) return !is_dropped;
    const had_failed = found.failed !== undefined;
    is_dropped = readFrame(frame, found, readEvent) && hides_usage;
    if (found.failed !== undefined && !had_failed)
      is_dropped ||= !!hidesFailure?.(found.failed, frame);
    return !is_dropped;
  };
  let is_over = false;
  const readRest = (): void => {
    if (is_over) return;
    is_over = true;
    last = lastFrame(state);
    if (last !== undefined && !isKept(last)) last = undefined;
  };
  return {
    push(chunk) {
      found.bytes += chunk.length;
      const frames = readFrames(state, chunk);
      const kept = frames.filter(isKept);
      if (guard !== undefined) return guard.push(kept);
      // Frames that lie behind one another in one chunk, the usual case, go on as they came.
      if (kept.length === frames.length && kept.length > 0) return joined(chunk, kept);
      return Buffer.concat(kept.map(({ bytes }) => bytes));
    },
    readRest,
    rest() {
      readRest();
      return guard === undefined ? (last?.bytes ?? nothing) : guard.end(last);
    },
    measured: () => found,
  };
}

/** Reads a whole answer beside its bytes. */
interface AnswerMeter {
  push(chunk: Buffer): void;
  /** The bytes so far. */
  bytes(): number;
  /** All that came; it is parsed here, once. */
  read(): Whole;
}

/** An answer that has come to its end; of one that is too long to be kept, its last part. */
export interface Whole {
  measured: Measured;
  plain: Buffer;
  text: string;
  /** The object that it is. */
  body: Body | undefined;
}

/** The meter of JSON, or of a text. */
export function createJsonMeter(reader: Reader): AnswerMeter {
  const kept = newEnds();
  let bytes = 0;
  return {
    push(chunk) {
      bytes += chunk.length;
      keep(kept, chunk);
    },
    bytes: () => bytes,
    read: () => readJson(reader, kept, bytes),
  };
}

/**
 * A decompressor for an upstream that compresses although it was not asked to; a proxy may have
 * said the coding twice.
 */
export function decoderOf(given: string | string[] | undefined): Duplex | undefined {
  const encoding = codingOf(given);
  if (encoding === 'gzip' || encoding === 'x-gzip') return createGunzip();
  if (encoding === 'br') return createBrotliDecompress();
  return encoding === 'deflate' ? createInflate() : undefined;
}

/** The one coding that a header names; empty for none, or several. */
export function codingOf(given: string | string[] | undefined): string {
  if (given === undefined) return '';
  const named = String(given)
    .toLowerCase()
    .split(',')
    .map((one) => one.trim());
  const codings = new Set(named.filter((one) => one !== '' && one !== 'identity'));
  return codings.size === 1 ? ([...codings][0] as string) : '';
}

/** Takes one frame into account; true for the chunk that carries nothing but usage. */
function readFrame(frame: Frame, found: Measured, readEvent: (event: Body) => boolean): boolean {
  const { data } = frame;
  if (data === undefined) return false;
  if (data.trimEnd() === '[DONE]') {
    found.is_done = true;
    return false;
  }
  const event = objectIn(data);
  if (event === undefined) {
    const listed = data.startsWith('[') ? firstOf(data) : undefined;
    if (listed !== undefined && saysFailure(listed)) found.failed ??= listed;
    if (frame.event === 'error') found.failed ??= { message: data };
    return false;
  }
  frame.json = event;
  found.model ??= modelIn(event);
  if (frame.event === 'error' || saysFailure(event) || isNoEvent(event)) found.failed ??= event;
  return readEvent(event);
}

/** The name of the model that an answer, or the beginning of its stream, tells. */
function modelIn({ model, message, response }: Body): string | undefined {
  const told = model ?? (message as Body | null)?.model ?? (response as Body | null)?.model;
  return typeof told === 'string' && told !== '' ? told : undefined;
}

/** The first object of a list, as one provider wraps its errors. */
function firstOf(data: string): Body | undefined {
  return objectIn(data.trim().slice(1, -1));
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
  if (kept.bytes <= WHOLE_MAX_BYTES) return;
  const all = Buffer.concat(kept.chunks);
  kept.head ??= Buffer.from(all.subarray(0, ENDS_BYTES));
  const tail = Buffer.from(all.subarray(-ENDS_BYTES));
  kept.chunks = [tail];
  kept.bytes = tail.length;
}

function readJson(reader: Reader, { chunks, head }: Ends, bytes: number): Whole {
  const plain = Buffer.concat(chunks);
  const text = plain.toString('utf8');
  const measured = { ...nothing_measured, bytes };
  if (head !== undefined) {
    const usage = usageIn(reader, text) ?? usageIn(reader, head.toString('utf8'));
    Object.assign(measured, { usage, text, is_unread: true, has_output: true });
    return { measured, plain, text, body: undefined };
  }
  const body = objectIn(text);
  readAnswer(reader, { text, body }, measured);
  return { measured, plain, text, body };
}

function readAnswer(
  reader: Reader,
  { text, body: answer }: Pick<Whole, 'text' | 'body'>,
  found: Measured,
): void {
  if (answer === undefined) {
    found.text = text;
    found.is_unread = true;
    reader.readText?.(text, found);
    if (text === '') found.has_output = false;
  } else {
    found.model = modelIn(answer);
    reader.readAnswer(answer, found);
    if (found.text !== '') found.has_output = true;
  }
}

/** The usage object in a part of a JSON text too long to parse. */
function usageIn(reader: Reader, part: string): Told | undefined {
  const found = [...part.matchAll(/"usage"\s*:\s*(\{(?:[^{}]|\{[^{}]*\})*\})/g)].at(-1)?.[1];
  return found === undefined ? undefined : reader.usageOf(objectIn(found));
}
