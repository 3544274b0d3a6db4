import { AppError } from '../../domain/errors';
import type { SoundFile } from './sound-length';
import { startThread, type Thread } from './thread';

/** Says how long sound lasts, without holding the event loop. */
export interface Sound {
  /** In seconds; a guess from the size where the file does not tell, and never less than its size allows. */
  lasts(file: SoundFile): Promise<number>;
  close(): void;
}

// Uncompressed stereo of 48,000 samples of two bytes: what says that it is shorter has been tampered with.
const BYTES_PER_SECOND_MAX = 192_000;
// Speech at 32 kbit/s, about the least that such files are kept at: too long rather than too short, as settling gives back.
const BYTES_PER_SECOND_GUESSED = 4_000;
// Providers take no less.
const SECONDS_MIN = 0.1;

export function openSound(): Sound {
  let thread: Thread<SoundFile, number | null> | undefined;
  const start = () =>
    startThread<SoundFile, number | null>('gateway/counting/sound-thread.ts', () => {
      thread = undefined;
    });
  return {
    async lasts(file) {
      thread ??= start();
      const told = await thread.ask(file).catch(() => {
        throw new AppError(
          'overloaded',
          'Too many sound files are read at present. Repeat the request shortly.',
        );
      });
      const { length } = file.bytes;
      if (told === null || !Number.isFinite(told)) {
        return Math.max(SECONDS_MIN, length / BYTES_PER_SECOND_GUESSED);
      }
      return Math.max(SECONDS_MIN, told, length / BYTES_PER_SECOND_MAX);
    },
    close: () => thread?.stop(),
  };
}
