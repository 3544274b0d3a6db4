import type { ServerResponse } from 'node:http';
import { setTimeout as sleep, setImmediate as turn } from 'node:timers/promises';
import { type Faults, figure } from '../models/faults';
import { chunkFrame, exceptionFrame } from './frames';

// Exceptions that a stream ends in, by the faults that ask for them.
const exceptions: Readonly<Record<string, [type: string, message: string]>> = {
  exception: ['throttlingException', 'Too many tokens.'],
  overloaded: ['serviceUnavailableException', 'Bedrock is overloaded.'],
};

/**
 * Sends the frames of a stream, with the faults asked for: `exception after=2`, `overloaded
 * after=2`, `crc after=2`, `half after=2` (it ends within a frame), `untyped`, `bytes` (one at a
 * time), `cut-end` (the socket dies behind the last frame).
 */
export async function sendBinary(
  res: ServerResponse,
  frames: readonly Buffer[],
  faults: Faults,
): Promise<void> {
  res.writeHead(200, { 'content-type': 'application/vnd.amazon.eventstream' });
  const after = figure(faults, 'after', 2);
  const write = async (bytes: Buffer) => {
    if (!faults.bytes) {
      res.write(bytes);
      return;
    }
    for (const byte of bytes) {
      res.write(Buffer.from([byte]));
      await turn();
    }
  };
  for (const [at, bytes] of frames.entries()) {
    if (at === after) {
      const thrown = Object.entries(exceptions).find(([name]) => faults[name])?.[1];
      if (thrown !== undefined) {
        await write(exceptionFrame(...thrown));
        break;
      }
      if (faults.crc) bytes.writeUInt8(bytes.readUInt8(bytes.length - 1) ^ 255, bytes.length - 1);
      if (faults.half) {
        await write(bytes.subarray(0, bytes.length / 2));
        break;
      }
      if (faults.untyped) await write(chunkFrame({ text: 'no event' }));
    }
    await write(bytes);
  }
  // Bytes that were written before leave first.
  await sleep(5);
  if (faults['cut-end']) res.destroy();
  else res.end();
}
