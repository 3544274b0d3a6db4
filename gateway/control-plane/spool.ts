import { randomUUID } from 'node:crypto';
import * as fs from 'node:fs';
import path from 'node:path';
import type { Settle, Usage } from '../../domain/ledger/calls';
import { ConfigError } from '../../runtime/config';
import type { Logger } from '../../runtime/log';

/** A settlement with the usage that its hold was made for. */
export type Spooled = [settlement: Settle, estimate?: Usage | undefined];

/** Sends what another process has left; `forget` once it is accepted. */
type Send = (settlement: Settle, estimate: Usage | undefined, forget: () => void) => void;

const FORM = /^settlements-[\w-]+\.jsonl$/;
const BYTES_MAX = 16 * 1_048_576;
// A file with less is not emptied: that would cost a system call for each of few settlements.
const EMPTIED_BYTES_MIN = 65_536;
const BEAT_MS = 10_000;
// A file that nobody has touched for so long belongs to a process that has ended.
const LEFT_AFTER_MS = 30_000;

/**
 * Keeps settlements in a file until they are accepted, so that the next process sends what this one
 * could not. Each process has a file of its own in the folder, touches it as it lives, and takes
 * over those that nobody touches. To send one twice is safe: a hold is settled once.
 */
export class Spool {
  private readonly folder: string;
  private readonly file: string;
  private readonly log: Logger;
  private readonly bytes_max: number;
  private readonly pending = new Map<number, string>();
  /** Files of ended processes, until all of each is accepted. */
  private readonly taken = new Set<string>();
  private readonly timer: NodeJS.Timeout;
  private fd: number;
  private bytes = 0;
  private last = 0;
  private is_failing = false;
  private is_closed = false;

  constructor(folder: string, log: Logger, bytes_max = BYTES_MAX) {
    this.folder = folder;
    this.file = path.join(folder, `settlements-${randomUUID()}.jsonl`);
    this.log = log;
    this.bytes_max = bytes_max;
    try {
      fs.mkdirSync(folder, { recursive: true, mode: 0o700 });
      this.fd = this.open();
    } catch (error) {
      throw new ConfigError(`GATEWAY_SPOOL_DIR cannot be written: ${(error as Error).message}`);
    }
    this.timer = setInterval(() => this.beat(), BEAT_MS).unref();
  }

  /** Writes a settlement down; the returned function forgets it. */
  keep(spooled: Spooled): () => void {
    this.last += 1;
    const n = this.last;
    const text = JSON.stringify([n, ...spooled]);
    if (this.bytes + text.length > this.bytes_max) this.rewrite();
    if (this.bytes + text.length > this.bytes_max) {
      this.fail('it is full');
      return () => undefined;
    }
    this.pending.set(n, text);
    this.append(text);
    return () => this.forget(n);
  }

  /**
   * What processes have left that ended before. A file stays until all of it is accepted, whatever
   * room there is here: if this process dies too, the next one finds it.
   */
  takeOver(send: Send): void {
    for (const name of this.names()) {
      const file = path.join(this.folder, name);
      if (!FORM.test(name) || file === this.file || this.taken.has(file)) continue;
      try {
        if (fs.statSync(file).mtimeMs <= Date.now() - LEFT_AFTER_MS) this.take(file, send);
      } catch (error) {
        // Another process may have been first.
        this.log.info({ err: error }, 'a spooled file was not taken over');
      }
    }
  }

  /** The files of the folder; none while it cannot be read, which is no reason to end calls. */
  private names(): string[] {
    try {
      return fs.readdirSync(this.folder);
    } catch (error) {
      this.fail((error as Error).message);
      return [];
    }
  }

  private take(file: string, send: Send): void {
    const left = spooledIn(fs.readFileSync(file, 'utf8'));
    touch(file);
    this.taken.add(file);
    let unsettled = left.length;
    const forget = (): void => {
      unsettled -= 1;
      if (unsettled === 0) this.drop(file);
    };
    if (unsettled === 0) this.drop(file);
    else this.log.warn({ settlements: unsettled }, 'settlements of an ended gateway are sent');
    for (const [settlement, estimate] of left) send(settlement, estimate, forget);
  }

  /** Leaves what is not accepted to the next process. */
  close(): void {
    clearInterval(this.timer);
    this.is_closed = true;
    quietly(() => fs.closeSync(this.fd));
    quietly(() =>
      this.pending.size === 0
        ? fs.rmSync(this.file, { force: true })
        : fs.utimesSync(this.file, 0, 0),
    );
    for (const file of this.taken) quietly(() => fs.utimesSync(file, 0, 0));
  }

  private drop(file: string): void {
    this.taken.delete(file);
    if (!this.is_closed) quietly(() => fs.unlinkSync(file));
  }

  private forget(n: number): void {
    if (this.is_closed) return;
    this.pending.delete(n);
    if (this.pending.size === 0 && this.bytes >= EMPTIED_BYTES_MIN) this.rewrite();
    else this.append(`[${n}]`);
  }

  /** A line begins with its break, so that one which a full disk cut spoils no other. */
  private append(text: string): void {
    try {
      this.bytes += fs.writeSync(this.fd, `\n${text}`);
      this.is_failing = false;
    } catch (error) {
      this.fail((error as Error).message);
    }
  }

  /** Writes the file anew, with what is still to be accepted alone. */
  private rewrite(): void {
    const made = `${this.file}.new`;
    try {
      const text = [...this.pending.values()].map((line) => `\n${line}`).join('');
      fs.mkdirSync(this.folder, { recursive: true, mode: 0o700 });
      fs.writeFileSync(made, text, { mode: 0o600 });
      fs.renameSync(made, this.file);
      fs.closeSync(this.fd);
      this.fd = this.open();
      this.bytes = Buffer.byteLength(text);
    } catch (error) {
      quietly(() => fs.rmSync(made, { force: true }));
      this.fail((error as Error).message);
    }
  }

  private beat(): void {
    for (const file of this.taken) quietly(() => touch(file));
    try {
      touch(this.file);
    } catch {
      // Another process took this one for ended, and has sent what it found; or all of it is gone.
      this.rewrite();
    }
  }

  private open(): number {
    return fs.openSync(this.file, 'a', 0o600);
  }

  private fail(reason: string): void {
    if (!this.is_failing)
      this.log.error(`settlements are not spooled, a death of this gateway loses them: ${reason}`);
    this.is_failing = true;
  }
}

function touch(file: string): void {
  const now = new Date();
  fs.utimesSync(file, now, now);
}

/** Does something to a file that may be gone: sent and removed by another process. */
function quietly(action: () => void): void {
  try {
    action();
  } catch {
    // Then nothing is left to do.
  }
}

/** The settlements of a file that were not forgotten. */
function spooledIn(text: string): Spooled[] {
  const left = new Map<number, Spooled>();
  for (const line of text.split('\n')) {
    const [n, ...spooled] = parsed(line);
    if (n === undefined) continue;
    if (spooled.length > 0) left.set(n, spooled as unknown as Spooled);
    else left.delete(n);
  }
  return [...left.values()];
}

function parsed(line: string): [number?, ...unknown[]] {
  try {
    return JSON.parse(line);
  } catch {
    // An empty line, or one that was cut.
    return [];
  }
}
