import type { Cost } from '../call/cost';
import { usageIn, withCost } from '../stages/cost-member';
import { type Frame, lastFrame, newSseState, readFrames } from '../wire/sse';
import { objectIn } from '../wire/values';

const nothing = Buffer.alloc(0);
const ends = /\.(?:completed|incomplete|failed|done)$/;

/**
 * Holds the end of a stream back, from its last usage on, until the cost is known that is told with
 * it; all before passes at once.
 */
export class CostTail {
  private readonly sse = newSseState();
  /** Says whether the answer has come to its end, so that its next usage is the last one. */
  private readonly hasEnded: () => boolean;
  private readonly hold_ms: number;
  private readonly pass: (bytes: Buffer) => void;
  private held: Frame[] | undefined;
  private timer: NodeJS.Timeout | undefined;
  private is_over = false;

  /** `pass` gets what was held for `hold_ms` and no longer. */
  constructor(hasEnded: () => boolean, hold_ms: number, pass: (bytes: Buffer) => void) {
    this.hasEnded = hasEnded;
    this.hold_ms = hold_ms;
    this.pass = pass;
  }

  /** Takes bytes of the stream, and gives those that may go on. */
  push(bytes: Buffer): Buffer {
    if (this.is_over) return bytes;
    const frames = readFrames(this.sse, bytes);
    if (this.held !== undefined) {
      this.held.push(...frames);
      return nothing;
    }
    const at = frames.findIndex((frame) => this.isLast(frame));
    if (at < 0) return bytesOf(frames);
    this.held = frames.splice(at);
    this.timer = setTimeout(() => this.pass(this.end(undefined)), this.hold_ms);
    return bytesOf(frames);
  }

  /** What is left, with the cost if it is known: in its usage, else in a comment. */
  end(cost: Cost | undefined): Buffer {
    clearTimeout(this.timer);
    if (this.is_over) return nothing;
    this.is_over = true;
    const frames = this.held ?? [];
    // Its end may be missing, so nothing can stand behind it.
    const unended = lastFrame(this.sse);
    const whole = frames.length;
    if (unended !== undefined) frames.push(unended);
    if (cost === undefined) return bytesOf(frames);
    const at = frames.findLastIndex(({ data }) => data !== undefined && hasUsage(data));
    const told = frames[at];
    if (told === undefined) return bytesOf(withComment(frames, whole, cost));
    const before = frames.slice(0, at);
    return bytesOf([...before, { ...told, bytes: extended(told, cost) }, ...frames.slice(at + 1)]);
  }

  /** Nothing of it is wanted any more. */
  drop(): void {
    clearTimeout(this.timer);
    this.is_over = true;
  }

  private isLast({ data }: Frame): boolean {
    if (data === undefined) return false;
    if (data.trimEnd() === '[DONE]') return true;
    if (!hasUsage(data)) return false;
    const { type, delta } = objectIn(data) ?? {};
    // Messages may tell their usage so far in such events too.
    if (type === 'message_delta') return (delta as { stop_reason?: unknown })?.stop_reason != null;
    return typeof type === 'string' ? ends.test(type) : this.hasEnded();
  }
}

function hasUsage(data: string): boolean {
  return data.includes('"usage"') && objectIn(data) !== undefined && usageIn(data) !== undefined;
}

/** The frame's bytes with the cost in its data. */
function extended({ bytes, data = '', event }: Frame, cost: Cost): Buffer {
  const told = withCost(data, cost) ?? data;
  const text = bytes.toString('utf8');
  const at = text.indexOf(data);
  if (at >= 0) return Buffer.from(text.slice(0, at) + told + text.slice(at + data.length));
  // Data of several lines is written anew.
  const name = event === undefined ? '' : `event: ${event}\n`;
  const lines = told.split('\n').map((line) => `data: ${line}\n`);
  return Buffer.from(`${name}${lines.join('')}\n`);
}

/** No client takes a comment for an event. It stands before the mark of the end. */
function withComment(frames: readonly Frame[], whole: number, { amount, currency }: Cost): Frame[] {
  const bytes = Buffer.from(`: x-svc-cost ${amount} ${currency}\n\n`);
  const comment = { bytes, data: undefined, event: undefined, is_tail: false };
  const end = frames.findIndex(({ data }) => data?.trimEnd() === '[DONE]');
  return frames.toSpliced(end >= 0 ? end : whole, 0, comment);
}

function bytesOf(frames: readonly Frame[]): Buffer {
  const [only] = frames;
  if (only !== undefined && frames.length === 1) return only.bytes;
  return Buffer.concat(frames.map(({ bytes }) => bytes));
}
