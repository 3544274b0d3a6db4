import { AppError } from '../../domain/errors';
import type { SoundFile } from './sound-length';
import { startThread, type Thread } from './thread';

export type Sound = ReturnType<typeof openSound>;

// Uncompressed stereo of 48,000 samples of two bytes: what says that it is shorter has been
// tampered with.
const BYTES_PER_SECOND_MAX = 192_000;
// Speech at 32 kbit/s, about the least that such files are kept at: too long rather than too short,
// as settling gives back.
const BYTES_PER_SECOND_GUESSED = 4_000;
// Providers take no less.
const SECONDS_MIN = 0.1;

/** Reads how long sound lasts, and does not hold the event loop. */
export function openSound() {
  let thread: Thread<SoundFile, number | null> | undefined;
  const start = () =>
    startThread<SoundFile, number | null>('gateway/counting/sound-thread.ts', () => {
      thread = undefined;
    });
  return {
    /**
     * In seconds: a guess from the size if the file does not say, and never less than its size
     * allows.
     */
    async lasts(file: SoundFile): Promise<number> {
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
