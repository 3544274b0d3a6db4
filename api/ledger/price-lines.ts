import { linesOf, type PriceLine } from '../../domain/ledger/price-sheet';
import type { Db } from '../../domain/sql';
import type { Logger } from '../../runtime/log';

/** The most requests of one query. */
const ASKED_MAX = 64;

interface Asked {
  org_id: string;
  reservation_id: string;
  answer: (lines: PriceLine[] | undefined) => void;
}

/**
 * The price lines of requests that were just settled, of all that wait in one query: while it is
 * out the next ones gather. Undefined if they cannot be read: the money is booked, and a caller
 * does without its lines.
 */
export function createPriceLines(db: Db, log: Logger) {
  const waiting: Asked[] = [];
  let is_reading = false;

  async function readOn(): Promise<void> {
    is_reading = true;
    // Whatever settles in this turn of the event loop is asked for together.
    await Promise.resolve();
    while (waiting.length > 0) {
      const asked = waiting.splice(0, ASKED_MAX);
      const found = await linesOf(db, asked).catch((error) => {
        log.warn({ err: error }, 'price lines could not be read; callers get their cost without');
        return undefined;
      });
      for (const { reservation_id, answer } of asked)
        answer(found === undefined ? undefined : (found.get(reservation_id) ?? []));
    }
    is_reading = false;
  }

  return (org_id: string, reservation_id: string): Promise<PriceLine[] | undefined> =>
    new Promise((answer) => {
      waiting.push({ org_id, reservation_id, answer });
      if (!is_reading) void readOn();
    });
}
