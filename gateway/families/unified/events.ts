import { saysFailure } from '../../upstreams/failures';
import { isNoEvent } from '../../upstreams/no-event';
import { printExact } from '../../wire/exact';
import { FRAME_MAX_BYTES, type Frame, lastFrame, newSseState, readFrames } from '../../wire/sse';
import { type Body, objectIn } from '../../wire/values';
import type { Measured } from '../reader';
import type { Translator } from '../translation';
import { dataFrames, tooLong } from './completion';

/** How the events of one wire are told as a chat's. */
interface Teller {
  /** The `data` texts of one event, which came in this frame. */
  translate(event: Body, frame: Frame): readonly string[];
  /** Those behind its last event; of a stream that broke off, if it was whole by then. */
  end(is_broken: boolean): readonly string[];
  tell(measured: Measured): void;
}

/**
 * Translates a stream event by event; `read` gives the object that the data of one is. Throws for a
 * frame that is too long to be read, as what it holds was paid for.
 */
export function translateEvents(
  { translate, end, tell }: Teller,
  read: (data: string) => Body | undefined = objectIn,
): Translator {
  const state = newSseState();
  const told = (frame: Frame): Buffer => {
    const { data, bytes, event: name } = frame;
    if (data === undefined) {
      if (bytes.length > FRAME_MAX_BYTES) throw tooLong(FRAME_MAX_BYTES);
      // A stray line end says nothing.
      return bytes.includes(COLON) ? sign_of_life : nothing;
    }
    const event = read(data) ?? failureIn(data);
    if (event?.type === 'ping') return sign_of_life;
    if (event !== undefined) return dataFrames(translate(event, frame));
    // Words of an error that are no object are for the reader behind this.
    return name === 'error' ? Buffer.from(`${bytes.toString('utf8').trimEnd()}\n\n`) : nothing;
  };
  return {
    push: (chunk) => Buffer.concat(readFrames(state, chunk).map(told)),
    end(is_broken = false) {
      // Where a stream ended well, so did its last frame, whether it says so or not.
      const last = is_broken ? undefined : lastFrame(state);
      const rest = last === undefined ? nothing : told(last);
      return Buffer.concat([rest, dataFrames(end(is_broken))]);
    },
    tell,
  };
}

const nothing = Buffer.alloc(0);
const COLON = 58;
// A comment, which no client reads: while a model thinks, balancers cut a stream that is silent.
const sign_of_life = Buffer.from(': ping\n\n');

/** The failure in a list, as one provider wraps its errors. */
function failureIn(data: string): Body | undefined {
  const inner = data.trim();
  const first = inner.startsWith('[') ? objectIn(inner.slice(1, -1)) : undefined;
  return first !== undefined && saysFailure(first) ? first : undefined;
}

/** What is no event of a wire: a failure is for the reader behind this, all else for nobody. */
export function foreign(event: Body): string[] {
  return saysFailure(event) || isNoEvent(event) ? [printExact(event)] : [];
}
