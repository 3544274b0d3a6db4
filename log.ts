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

/** Structured logs on standard output, one JSON object a line; secrets are censored by name. */
export function createLog(name: string, level = 'info'): Logger {
  return pino({ name, level, redact, timestamp: pino.stdTimeFunctions.isoTime });
}
