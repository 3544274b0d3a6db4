import { AppError } from '../../domain/errors';
import type { SoundFile, SoundLength } from './sound-length';
import { startThread, type Thread } from './thread';

export type Sound = ReturnType<typeof openSound>;

// Uncompressed stereo of 48,000 samples of two bytes: what says that it is shorter has been
// tampered with.
const BYTES_PER_SECOND_MAX = 192_000;
// Speech at 32 kbit/s, about the least that such files are kept at: too long rather than too short,
// as settling gives back.
const BYTES_PER_SECOND_GUESSED = 4_000;
// The lowest rate in use.
const BYTES_PER_SECOND_MIN = 500;
// Providers take no less.
const SECONDS_MIN = 0.1;

/** How long a sound lasts as far as its file says, and at most, in seconds. */
export interface Lasting {
  seconds: number;
  /** More where its samples cannot be counted: anybody can write what a head says. */
  seconds_most: number;
}

/** Reads how long sound lasts, and does not hold the event loop. */
export function openSound() {
  let thread: Thread<SoundFile, SoundLength | null> | undefined;
  const start = () =>
    startThread<SoundFile, SoundLength | null>('gateway/counting/sound-thread.ts', () => {
      thread = undefined;
    });
  return {
    /**
     * A guess from the size if the file does not say, and never less than its size allows.
     */
    async lasts(file: SoundFile): Promise<Lasting> {
      thread ??= start();
      const told = await thread.ask(file).catch(() => {
        throw new AppError(
          'overloaded',
          'Too many sound files are read at present. Repeat the request shortly.',
        );
      });
      const { length } = file.bytes;
      const is_told = told !== null && Number.isFinite(told.seconds);
      const seconds = is_told
        ? Math.max(SECONDS_MIN, told.seconds, length / BYTES_PER_SECOND_MAX)
        : Math.max(SECONDS_MIN, length / BYTES_PER_SECOND_GUESSED);
      const is_certain = is_told && told.is_certain;
      return {
        seconds,
        seconds_most: is_certain ? seconds : Math.max(seconds, length / BYTES_PER_SECOND_MIN),
      };
    },
    close: () => thread?.stop(),
  };
}
