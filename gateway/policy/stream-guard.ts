import type { Frame } from '../wire/sse';
import { type Body, isObject, objectIn } from '../wire/values';
import { checkText, type Dlp } from './dlp';
import { hasRepeats } from './literals';
import { decidedText, type Piece } from './strand';
import type { Said } from './talk';

// A frame that was too long to be read cannot be checked either.
const UNREAD_MAX_BYTES = 1_048_576;

/** The policy that was violated and its rule, without the words that broke it. */
export interface Violation {
  policy: string;
  rule: string;
}

export type StreamGuard = ReturnType<typeof openStreamGuard>;

/** A policy that follows a stream. Both methods give the rule that was broken. */
export interface Watcher {
  policy: string;
  see(entry: Entry, event: Body): string | undefined;
  /** No more follows: all that has begun is whole. */
  end(): string | undefined;
}

/** A frame on its way, and what of it is not decided. */
export interface Entry {
  frame: Frame;
  event: Body | undefined;
  pieces: { piece: Piece; said: Said }[];
  names: { is_settled: boolean }[];
  is_changed: boolean;
}

/**
 * Stands between a stream and its client. Frames go on as they came, byte by byte, except those in
 * which something was redacted.
 */
export function openStreamGuard(watchers: readonly Watcher[], dlp: Dlp | undefined) {
  const waiting: Entry[] = [];
  let violation: Violation | undefined;
  const note = (policy: string, rule: string | undefined): boolean => {
    if (rule !== undefined) violation ??= { policy, rule };
    return rule !== undefined;
  };
  const endAll = (): boolean => watchers.some((watcher) => note(watcher.policy, watcher.end()));
  let is_over = false;
  const take = (given: Frame): void => {
    // No client reads on there, or all should.
    if (is_over && !given.is_tail) return;
    const frame = dlp === undefined ? given : withKnownFields(given);
    const event = eventOf(frame);
    const entry: Entry = { frame, event, pieces: [], names: [], is_changed: false };
    if (event !== undefined) {
      entry.is_changed = hasRepeats(frame.data ?? '', event);
      if (watchers.some((watcher) => note(watcher.policy, watcher.see(entry, event)))) return;
    } else if (isDone(frame.data)) {
      is_over = true;
      if (endAll()) return;
    } else if (looksLikeJson(frame)) {
      // Some clients read what is no JSON to the letter, as NaN is none.
      if (note(watchers[0]?.policy ?? 'dlp-filter', 'unread')) return;
    } else if (frame.data === undefined) {
      const policy = dlp === undefined ? watchers[0]?.policy : 'dlp-filter';
      if (isTooLong(frame) && note(policy ?? 'dlp-filter', 'unread')) return;
    } else if (dlp !== undefined) {
      const verdict = checkText(dlp, frame.data);
      if (note('dlp-filter', verdict.rule)) return;
      if (verdict.text !== frame.data) entry.frame = rewritten(frame, verdict.text as string);
    }
    waiting.push(entry);
  };
  const release = (): Buffer => {
    let count = 0;
    while (count < waiting.length && isDecided(waiting[count] as Entry)) count += 1;
    const free = waiting.splice(0, count).map((entry) => bytesOf(entry));
    return free.length === 1 ? (free[0] as Buffer) : Buffer.concat(free);
  };
  return {
    /**
     * Takes whole frames and returns those that may go on, in their order; none after a violation.
     */
    push(frames: readonly Frame[]): Buffer {
      for (const frame of frames) if (violation === undefined) take(frame);
      return release();
    },
    /** Ends the stream and returns what was held back. `rest` is a frame that never ended. */
    end(rest: Frame | undefined): Buffer {
      if (violation === undefined && rest !== undefined) take(rest);
      if (violation === undefined) endAll();
      return release();
    },
    violation: () => violation,
  };
}

function eventOf({ data, json }: Frame): Body | undefined {
  if (json !== undefined) return isObject(json) ? json : undefined;
  return data === undefined || isDone(data) ? undefined : objectIn(data);
}

/** The end of a stream, as all who read it take it. */
function isDone(data: string | undefined): boolean {
  return data?.trim() === '[DONE]';
}

function looksLikeJson({ data }: Frame): boolean {
  return data !== undefined && /^\s*[{[]/.test(data);
}

function isTooLong({ bytes }: Frame): boolean {
  return bytes.length > UNREAD_MAX_BYTES;
}

function isDecided({ pieces, names }: Entry): boolean {
  return (
    pieces.every(({ piece }) => piece.strand.safe >= piece.to) &&
    names.every(({ is_settled }) => is_settled)
  );
}

function bytesOf({ frame, event, pieces, is_changed }: Entry): Buffer {
  const edited = pieces.filter(({ piece }) => piece.edits.length > 0);
  if (event === undefined || (!is_changed && edited.length === 0)) return frame.bytes;
  for (const { piece, said } of edited) said.holder[said.member] = decidedText(piece);
  return rewritten(frame, JSON.stringify(event)).bytes;
}

// All that a client of these streams reads. Comments keep a connection open without a word.
const known_line =
  /^(?:data(?::.*)?|event: ?[\w.-]{1,64}|id: ?[\w.:-]{0,64}|retry: ?\d{1,9}|: ?|)$/s;
const event_name = /^[\w.-]{1,64}$/;

/** The frame without lines that say something elsewhere than in its data. */
function withKnownFields(frame: Frame): Frame {
  const { bytes, data, event, is_tail } = frame;
  if (is_tail || bytes.length > UNREAD_MAX_BYTES * 16) return frame;
  // One line of data and nothing else.
  if (event === undefined && data !== undefined) {
    if (bytes.length === Buffer.byteLength(data) + 8 && bytes[0] === 0x64) return frame;
  }
  const lines = bytes.toString('utf8').split(/\r\n|\n|\r/);
  if (lines.every((line) => known_line.test(line))) return frame;
  if (data !== undefined) return rewritten(frame, data);
  // One that never came to its end is too long to be read.
  return bytes.length > UNREAD_MAX_BYTES ? frame : { ...frame, bytes: Buffer.from(':\n\n') };
}

function rewritten(frame: Frame, data: string): Frame {
  const { event = '' } = frame;
  const name = event_name.test(event) ? `event: ${event}\n` : '';
  const lines = data.split('\n').map((line) => `data: ${line}\n`);
  return { ...frame, data, bytes: Buffer.from(`${name}${lines.join('')}\n`) };
}
