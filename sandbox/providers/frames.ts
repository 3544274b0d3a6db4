import { crc32 } from 'node:zlib';

// Frames of AWS's event stream, written by hand: lengths, their checksum, headers, body, checksum.

const TEXT = 7;

/** One frame with these headers, all of them texts. */
export function frame(headers: Readonly<Record<string, string>>, body: string | Buffer): Buffer {
  const head = Buffer.concat(
    Object.entries(headers).map(([name, value]) => {
      const text = Buffer.from(value);
      const length = Buffer.alloc(2);
      length.writeUInt16BE(text.length);
      return Buffer.concat([
        Buffer.from([name.length]),
        Buffer.from(name),
        Buffer.from([TEXT]),
        length,
        text,
      ]);
    }),
  );
  const content = Buffer.from(body);
  const prelude = Buffer.alloc(8);
  prelude.writeUInt32BE(16 + head.length + content.length, 0);
  prelude.writeUInt32BE(head.length, 4);
  const lead = Buffer.concat([prelude, checksum(prelude), head, content]);
  return Buffer.concat([lead, checksum(lead)]);
}

function checksum(bytes: Buffer): Buffer {
  const sum = Buffer.alloc(4);
  sum.writeUInt32BE(crc32(bytes));
  return sum;
}

/** An event of a model, as InvokeModelWithResponseStream gives it. */
export function chunkFrame(event: object): Buffer {
  const bytes = Buffer.from(JSON.stringify(event)).toString('base64');
  return frame(
    { ':event-type': 'chunk', ':content-type': 'application/json', ':message-type': 'event' },
    JSON.stringify({ bytes, p: 'abcdefgh' }),
  );
}

/** An event of a conversation, `{name: members}`, as ConverseStream gives it. */
export function eventFrame(event: object): Buffer {
  const [[name, members] = ['', {}]] = Object.entries(event);
  const headers = { ':content-type': 'application/json', ':message-type': 'event' };
  return frame(
    { ':event-type': name, ...headers },
    JSON.stringify({ ...(members as object), p: 'abcdefgh' }),
  );
}

/** An exception, which ends a stream. */
export function exceptionFrame(type: string, message: string): Buffer {
  return frame(
    { ':exception-type': type, ':content-type': 'application/json', ':message-type': 'exception' },
    JSON.stringify({ message }),
  );
}
