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

// Lines leave together: a line a request must not cost a busy process a system call of its own. pino writes the rest at exit.
const BUFFER_BYTES = 4_096;
const FLUSH_MS = 100;

/** Structured logs on standard output, one JSON object a line; secrets are censored by name. */
export function createLog(name: string, level = 'info'): Logger {
  const options = { name, level, redact, timestamp: pino.stdTimeFunctions.isoTime };
  return level === 'silent' ? pino(options) : pino(options, bufferedOutput());
}

function bufferedOutput(): pino.DestinationStream {
  const output = pino.destination({ dest: 1, sync: false, minLength: BUFFER_BYTES });
  let is_due = false;
  const flush = () => {
    is_due = false;
    output.flush();
  };
  return {
    write(line) {
      output.write(line);
      if (!is_due) setTimeout(flush, FLUSH_MS).unref();
      is_due = true;
    },
  };
}
