import { Writable } from 'node:stream';
import type { ClientResponse } from '../call/client-side';
import { type Frame, newSseState, readFrames, unfinished } from '../wire/sse';
import { frameOfEvent, inLane, type Protocol } from './frames';

// Of an answer that its provider did not stream, as asked.
const WHOLE_MAX_BYTES = 64 * 1_048_576;

/** Takes the frames of a socket, no faster than they are read. */
export interface Link {
  send(text: string): void;
  /** What follows in this turn leaves in one piece. */
  gather(): void;
  /** Runs the step once there is room for more. */
  whenRoom(step: () => void): void;
}

/** Takes an answer as an HTTP response would, and sends each of its events as a frame. */
export class SocketResponse extends Writable implements ClientResponse {
  headersSent = false;
  statusCode = 200;
  /** An error frame stands in it. */
  has_failed = false;
  private readonly link: Link;
  private readonly protocol: Protocol;
  private readonly stream_id: string | undefined;
  private readonly sse = newSseState();
  private whole: Buffer[] | undefined;
  private whole_bytes = 0;

  constructor(link: Link, protocol: Protocol, stream_id: string | undefined) {
    super();
    this.link = link;
    this.protocol = protocol;
    this.stream_id = stream_id;
  }

  writeHead(status: number, headers: Record<string, string>): this {
    this.headersSent = true;
    this.statusCode = status;
    if (!/^text\/event-stream/i.test(headers['content-type'] ?? '')) this.whole = [];
    return this;
  }

  /** A frame has no head. */
  flushHeaders(): void {}

  /** Sends a frame by itself: a refusal, or the end. */
  say(frame: string): void {
    this.link.send(inLane(frame, this.stream_id));
  }

  override _write(chunk: Buffer, _encoding: string, done: (error?: Error) => void): void {
    if (this.whole === undefined) {
      const frames = readFrames(this.sse, chunk);
      if (frames.length > 1) this.link.gather();
      for (const frame of frames) this.pass(frame);
      this.link.whenRoom(done);
      return;
    }
    this.whole_bytes += chunk.length;
    if (this.whole_bytes > WHOLE_MAX_BYTES) this.destroy();
    else this.whole.push(chunk);
    done();
  }

  override _final(done: (error?: Error) => void): void {
    if (this.whole !== undefined && this.whole.length > 0) {
      const text = Buffer.concat(this.whole)
        .toString('utf8')
        .replace(/^\ufeff/, '');
      this.say(this.protocol.whole(text));
    }
    // The last event of a stream may lack its empty line.
    if (unfinished(this.sse).length > 0) {
      for (const frame of readFrames(this.sse, Buffer.from('\n\n'))) this.pass(frame);
    }
    done();
  }

  private pass({ data, event }: Frame): void {
    if (data === undefined || data.trimEnd() === '[DONE]') return;
    const frame = frameOfEvent({ data, event });
    if (frame === undefined) return;
    if (frame.is_error) this.has_failed = true;
    this.say(frame.text);
  }
}
