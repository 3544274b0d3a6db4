import { createWriteStream, renameSync, statSync, type WriteStream } from 'node:fs';
import path from 'node:path';
import { privateFolder } from './data-directory';

// A file that has grown this large makes room for a new one; the one before is kept.
const FILE_BYTES_MAX = 32 * 1_048_576;

// Until a file that could not be written, as on a full disk, is tried again.
const PAUSE_MS = 1_000;

interface Open {
  stream: WriteStream;
  bytes: number;
  /** Since when it takes nothing more; a stream that failed once is closed for good. */
  failed_at: number | undefined;
}

/**
 * Keeps the lines of each process in a file of its own, `<name>.log` in the folder, as the process
 * wrote them.
 */
export function createLogFiles(folder: string, bytes_max = FILE_BYTES_MAX) {
  const files = new Map<string, Open>();
  const open = (name: string): Open => {
    privateFolder(folder);
    const file = fileOf(folder, name);
    const stream = createWriteStream(file, { flags: 'a', mode: 0o600 });
    const made: Open = { stream, bytes: sizeOf(file), failed_at: undefined };
    // A full disk must not stop the process; the console still shows the lines.
    stream.on('error', () => {
      made.failed_at = performance.now();
    });
    files.set(name, made);
    return made;
  };
  return {
    write(name: string, line: string): void {
      let file = files.get(name) ?? open(name);
      if (file.failed_at !== undefined) {
        if (performance.now() - file.failed_at < PAUSE_MS) return;
        file = open(name);
      }
      if (file.bytes > bytes_max) {
        file.stream.end();
        // The old stream writes its rest into the renamed file.
        renameSync(fileOf(folder, name), `${fileOf(folder, name)}.1`);
        file = open(name);
      }
      file.bytes += line.length + 1;
      file.stream.write(`${line}\n`);
    },
  };
}

function fileOf(folder: string, name: string): string {
  return path.join(folder, `${name}.log`);
}

function sizeOf(file: string): number {
  return statSync(file, { throwIfNoEntry: false })?.size ?? 0;
}
