import type { Body } from './values';

const LF = 10;
const CR = 13;
/** A frame longer than this passes unparsed, so that memory stays bounded. */
export const FRAME_MAX_BYTES = 16 * 1_048_576;

/** One event of a stream: its exact bytes, its name and its data. */
export interface Frame {
  bytes: Buffer;
  /** Undefined if the frame has no data: a comment, or a stray line end. */
  data: string | undefined;
  /** The object that the data is, once somebody has parsed it. */
  json?: Body;
  event: string | undefined;
  /** The LF of a CRLF whose CR ended the frame before: it shares that frame's fate. */
  is_tail: boolean;
}

/** Where a reader stands between two chunks. */
interface SseState {
  parts: Buffer[];
  held_bytes: number;
  line_is_empty: boolean;
  after_cr: boolean;
  frame_ended_in_cr: boolean;
}

export function newSseState(): SseState {
  return {
    parts: [],
    held_bytes: 0,
    line_is_empty: true,
    after_cr: false,
    frame_ended_in_cr: false,
  };
}

/**
 * The frames that a chunk completes: any chunk boundary, LF, CRLF and CR, without a copy of what
 * lies in one chunk. Line ends are looked for by native search, so a long line costs little.
 */
export function readFrames(state: SseState, chunk: Buffer): Frame[] {
  const frames: Frame[] = [];
  let start = 0;
  let at = 0;
  let lf = chunk.indexOf(LF);
  let cr = chunk.indexOf(CR);
  while (at < chunk.length) {
    if (lf >= 0 && lf < at) lf = chunk.indexOf(LF, at);
    if (cr >= 0 && cr < at) cr = chunk.indexOf(CR, at);
    const end = lineEnd(lf, cr);
    if (end !== at) passText(state);
    if (end < 0) break;
    at = end + 1;
    const ended = passLineEnd(state, end === cr);
    if (ended === 'no') continue;
    frames.push(frameOf(take(state, chunk.subarray(start, at)), ended === 'tail'));
    start = at;
  }
  if (start < chunk.length) keep(state, chunk.subarray(start), frames);
  return frames;
}

/** The bytes of a frame that never ended. */
export function unfinished(state: SseState): Buffer {
  return Buffer.concat(state.parts);
}

/** The frame that never ended, as if it had; undefined if there is none. */
export function lastFrame(state: SseState): Frame | undefined {
  const bytes = unfinished(state);
  return bytes.length > 0 ? frameOf(bytes, false) : undefined;
}

function lineEnd(lf: number, cr: number): number {
  if (lf < 0) return cr;
  return cr < 0 ? lf : Math.min(lf, cr);
}

function passText(state: SseState): void {
  state.line_is_empty = false;
  state.after_cr = false;
  state.frame_ended_in_cr = false;
}

/**
 * Moves over one CR or LF; says whether a frame has ended there, or only the LF of a CRLF that
 * ended one.
 */
function passLineEnd(state: SseState, is_cr: boolean): 'no' | 'frame' | 'tail' {
  if (!is_cr && state.after_cr) {
    const ended = state.frame_ended_in_cr;
    state.after_cr = false;
    state.frame_ended_in_cr = false;
    return ended ? 'tail' : 'no';
  }
  const ended = state.line_is_empty;
  state.after_cr = is_cr;
  state.line_is_empty = true;
  state.frame_ended_in_cr = ended && is_cr;
  return ended ? 'frame' : 'no';
}

function take(state: SseState, last: Buffer): Buffer {
  if (state.held_bytes === 0) return last;
  const bytes = Buffer.concat([...state.parts, last]);
  state.parts = [];
  state.held_bytes = 0;
  return bytes;
}

function keep(state: SseState, rest: Buffer, frames: Frame[]): void {
  state.parts.push(rest);
  state.held_bytes += rest.length;
  if (state.held_bytes <= FRAME_MAX_BYTES) return;
  const bytes = take(state, Buffer.alloc(0));
  frames.push({ bytes, data: undefined, event: undefined, is_tail: false });
}

function frameOf(bytes: Buffer, is_tail: boolean): Frame {
  if (is_tail) return { bytes, data: undefined, event: undefined, is_tail };
  const text = bytes.toString('utf8');
  const end = text.indexOf('\n');
  // The usual frame is one `data: ` line; everything else takes the general way.
  if (text.startsWith('data: ') && end === text.length - 2 && !text.includes('\r')) {
    return { bytes, data: text.slice(6, end), event: undefined, is_tail };
  }
  return { bytes, ...fieldsOf(text), is_tail };
}

function fieldsOf(text: string): Pick<Frame, 'data' | 'event'> {
  const data: string[] = [];
  let event: string | undefined;
  for (const line of text.replace(/^\uFEFF/, '').split(/\r\n|\n|\r/)) {
    const colon = line.indexOf(':');
    const name = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? '' : line.slice(colon + 1).replace(/^ /, '');
    if (name === 'data') data.push(value);
    if (name === 'event') event = value;
  }
  return { data: data.length > 0 ? data.join('\n') : undefined, event };
}
