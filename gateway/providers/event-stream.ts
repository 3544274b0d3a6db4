import { EventStreamCodec } from '@smithy/eventstream-codec';
import type { Unframer } from './kind';

// AWS's binary event stream: each frame holds its length, headers, a body and two checksums.

const codec = new EventStreamCodec(
  (bytes) => Buffer.from(bytes).toString('utf8'),
  (text) => Buffer.from(text, 'utf8'),
);
const nothing = Buffer.alloc(0);
const LENGTH_BYTES = 4;
// Two lengths and two checksums.
const FRAME_MIN_BYTES = 16;
const FRAME_MAX_BYTES = 24 * 1_048_576;

const event_name = /^\w{1,100}$/;

/** Statuses of exceptions, as the error events of the wire name them. */
const types: Readonly<Record<string, string>> = {
  throttlingException: 'rate_limit_error',
  serviceQuotaExceededException: 'rate_limit_error',
  validationException: 'invalid_request_error',
  modelTimeoutException: 'timeout_error',
  modelErrorException: 'api_error',
  modelStreamErrorException: 'api_error',
  serviceUnavailableException: 'overloaded_error',
  internalServerException: 'api_error',
  accessDeniedException: 'permission_error',
};

/**
 * Turns an event stream of Bedrock into events of Anthropic's wire: the bytes of a chunk are an
 * event, and an exception is one that says `error`.
 */
export function openEventStream(): Unframer {
  return open(chunkIn);
}

/** The same of a conversation, whose events have their names in their headers. */
export function openConverseStream(): Unframer {
  return open(named);
}

/** What an event of a stream says, by its name and its body; an empty text if nothing. */
type ReadEvent = (name: string, body: string) => string;

function open(read: ReadEvent): Unframer {
  // The pieces of a frame that is not whole yet: joined once, as one may come in thousands.
  let pieces: Buffer[] = [];
  let held = 0;
  let wanted = LENGTH_BYTES;
  let damage: unknown;
  return {
    push(chunk) {
      if (damage !== undefined) throw damage;
      pieces.push(chunk);
      held += chunk.length;
      if (held < wanted) return nothing;
      const bytes = pieces.length === 1 ? chunk : Buffer.concat(pieces, held);
      let text = '';
      let at = 0;
      wanted = LENGTH_BYTES;
      try {
        while (held - at >= LENGTH_BYTES) {
          const length = lengthAt(bytes, at);
          if (held - at < length) {
            wanted = length;
            break;
          }
          text += eventIn(bytes.subarray(at, at + length), read);
          at += length;
        }
      } catch (error) {
        // What came whole before it counts, and is given first.
        damage = error;
        if (text === '') throw error;
      }
      pieces = [bytes.subarray(at)];
      held -= at;
      return text === '' ? nothing : Buffer.from(text);
    },
    end() {
      if (damage !== undefined) throw damage;
      if (held > 0) throw new Error('An event stream ended within a frame.');
      return nothing;
    },
  };
}

function lengthAt(bytes: Buffer, at: number): number {
  const length = bytes.readUInt32BE(at);
  if (length < FRAME_MIN_BYTES || length > FRAME_MAX_BYTES)
    throw new Error('A frame of an event stream has no length that one can have.');
  return length;
}

/** One frame as an event of text; an empty text for one that says nothing. */
function eventIn(frame: Buffer, read: ReadEvent): string {
  const { headers, body } = codec.decode(frame);
  const kind = headers[':message-type']?.value;
  const text = Buffer.from(body.buffer, body.byteOffset, body.byteLength).toString('utf8');
  if (kind === 'exception') return failure(String(headers[':exception-type']?.value), text);
  if (kind === 'error') {
    const message = String(headers[':error-message']?.value ?? '');
    return failure(String(headers[':error-code']?.value), JSON.stringify({ message }));
  }
  return read(String(headers[':event-type']?.value), text);
}

const chunkIn: ReadEvent = (_, text) => {
  const { bytes } = JSON.parse(text) as { bytes?: unknown };
  if (typeof bytes !== 'string') return '';
  const data = Buffer.from(bytes, 'base64').toString('utf8');
  const { type } = JSON.parse(data) as { type?: unknown };
  // What has no type is no event of that wire.
  if (typeof type !== 'string' || !event_name.test(type)) return '';
  return eventOf(type, data);
};

const named: ReadEvent = (name, text) => {
  const value = JSON.parse(text) as unknown;
  if (typeof value !== 'object' || value === null) throw new Error('An event holds no object.');
  return event_name.test(name) ? eventOf(name, text) : '';
};

/** A line of JSON ends only between its values. */
function eventOf(name: string, data: string): string {
  return `event: ${name}\ndata: ${data.replaceAll(/[\r\n]+/g, ' ')}\n\n`;
}

function failure(name: string, text: string): string {
  let message = text;
  try {
    const { message: said, Message: also } = JSON.parse(text) as Record<string, unknown>;
    message = String(said ?? also ?? text);
  } catch {
    // It is no JSON: its words are all there is.
  }
  const type = types[name] ?? 'api_error';
  const error = { type, message: message || name };
  return `event: error\ndata: ${JSON.stringify({ type: 'error', error })}\n\n`;
}
