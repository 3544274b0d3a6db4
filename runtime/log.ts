import { write, writeSync } from 'node:fs';
import pino, { type Logger } from 'pino';

export type { Logger } from 'pino';

const redact = [
  'key',
  '*.key',
  'authorization',
  '*.authorization',
  '*.cookie',
  '*["x-api-key"]',
  '*.secret',
  '*.password',
];

// Lines leave together: a line a request must not cost a busy process a system call of its own.
const BUFFER_CHARACTERS = 4_096;
const FLUSH_MS = 100;
// Behind an output that takes nothing at present; further lines are lost.
const WAITING_CHARACTERS_MAX = 8_388_608;
const STDOUT = 1;

/** Structured logs on standard output, one JSON object a line; secrets are censored by name. */
export function createLog(name: string, level = 'info'): Logger {
  const options = { name, level, redact, timestamp: pino.stdTimeFunctions.isoTime };
  return level === 'silent' ? pino(options) : pino(options, bufferedOutput());
}

/**
 * Writes beside the work of the process, and writes the rest as it ends. pino's own destination
 * tries for ever to write that to a pipe without a reader or a full disk, so that the process never
 * ends; here such lines are lost.
 */
function bufferedOutput(): pino.DestinationStream {
  let waiting = '';
  let is_due = false;
  let is_writing = false;
  let began_at = 0;
  const flush = (): void => {
    is_due = false;
    if (is_writing || waiting === '') return;
    const bytes = Buffer.from(waiting);
    waiting = '';
    send(bytes);
  };
  const flushSoon = (): void => {
    if (!is_due) setTimeout(flush, FLUSH_MS).unref();
    is_due = true;
  };
  const send = (bytes: Buffer): void => {
    is_writing = true;
    began_at = performance.now();
    write(STDOUT, bytes, (error, written) => {
      if (error?.code === 'EAGAIN') {
        setTimeout(send, FLUSH_MS, bytes).unref();
      } else if (error === null && written < bytes.length) send(bytes.subarray(written));
      else {
        is_writing = false;
        flush();
      }
    });
  };
  process.once('exit', () => {
    // An output that does not take the lines before takes none now.
    const is_stuck = is_writing && performance.now() - began_at > FLUSH_MS;
    if (is_stuck || waiting === '') return;
    try {
      writeSync(STDOUT, waiting);
    } catch {
      // Nobody reads the output any more.
    }
  });
  return {
    write(line) {
      if (waiting.length < WAITING_CHARACTERS_MAX) waiting += line;
      if (waiting.length < BUFFER_CHARACTERS) flushSoon();
      else flush();
    },
  };
}
