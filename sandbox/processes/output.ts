import pino from 'pino';
import { prettyFactory } from 'pino-pretty';
import type { Logger } from '../../runtime/log';
import { createLogFiles } from './log-files';

// At a line a request nobody would find the addresses again.
const request_line = '"msg":"request"';

/** Everything that a person sees at the terminal. */
export type Output = ReturnType<typeof createOutput>;

/**
 * Readable logs on standard output, and all of them in files of the folder; `onClosed` is called
 * when nobody can read them any more.
 */
export function createOutput(log_folder: string, onClosed: () => void) {
  const { stdout } = process;
  const pretty = prettyFactory({
    colorize: stdout.isTTY === true,
    translateTime: 'SYS:HH:MM:ss',
    ignore: 'pid,hostname',
  });
  let is_open = true;
  stdout.on('error', () => {
    if (is_open) onClosed();
    is_open = false;
  });
  const write = (text: string) => {
    if (is_open) stdout.write(text);
  };
  const files = createLogFiles(log_folder);
  const line = (name: string, text: string) => {
    if (text.trim() === '') return;
    files.write(name, text.trimEnd());
    if (!text.includes(request_line)) write(pretty({ ...parse(text), name }));
  };
  const log: Logger = pino({ name: 'start' }, { write: (text: string) => line('start', text) });
  return {
    log,
    /**
     * A line of a process's log: kept in its file, and shown under its name unless it is about one
     * request.
     */
    line,
    /** Words of our own, as they are. */
    say: (text: string) => write(`${text}\n`),
  };
}

// A line that is not our JSON, such as a server's own, becomes JSON.
function parse(text: string): object {
  if (text.startsWith('{')) {
    try {
      return JSON.parse(text) as object;
    } catch {
      // It only looked like one.
    }
  }
  return { level: 30, time: Date.now(), msg: text };
}
