import { readFileSync, statSync } from 'node:fs';
import { keyIn } from '../../config/auth';

// A key that was replaced is looked for no more often than this.
const LOOK_MS = 1_000;

/** The key in a file, which is read again once it has changed. */
export class KeyFile {
  private readonly file: string;
  private readonly now: () => number;
  private key = '';
  private stamp = '';
  private looked_at = Number.NEGATIVE_INFINITY;

  constructor(file: string, now: () => number = performance.now.bind(performance)) {
    this.file = file;
    this.now = now;
  }

  /** Throws if the file cannot be read and never could. */
  current(): string {
    if (this.key !== '' && this.now() - this.looked_at < LOOK_MS) return this.key;
    this.looked_at = this.now();
    try {
      this.read();
    } catch (error) {
      // A file is away for a moment while another one takes its place.
      if (this.key === '') throw error;
    }
    return this.key;
  }

  /** The provider refused this key. True if the file has another one now. */
  refuse(key: string): boolean {
    this.looked_at = Number.NEGATIVE_INFINITY;
    try {
      return this.current() !== key;
    } catch {
      return false;
    }
  }

  private read(): void {
    const { mtimeMs, size, ino } = statSync(this.file);
    const stamp = `${mtimeMs} ${size} ${ino}`;
    if (stamp === this.stamp) return;
    const key = keyIn(readFileSync(this.file, 'utf8'));
    if (key === undefined) throw new Error(`The file ${this.file} holds no key.`);
    this.key = key;
    this.stamp = stamp;
  }
}
