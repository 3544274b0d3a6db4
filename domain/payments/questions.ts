import { type Db, many, one } from '../sql';

// Questions to a payment's provider: all who ask at one time share one, and one that gets no answer
// is asked again.

/**
 * The number of the question that may be put to the provider now: all who ask at one time share
 * one. Undefined if it is too soon for a new one after the last.
 */
export async function ask(db: Db, id: string, { pause_s }: { pause_s: number }) {
  const { asked } = await one<{ asked: number | null }>(
    db,
    'select ask_payment(:id, make_interval(secs => :pause_s)) as asked',
    { id, pause_s },
  );
  return asked ?? undefined;
}

/**
 * The provider gave no answer that says how things stand: it is asked again later, after the end
 * too. `is_gone`: it says that it does not know the order; after a day of that the payment failed.
 * The provider's own message is for operators only.
 */
export async function unanswered(
  db: Db,
  id: string,
  given: { message: string; is_gone?: boolean; asked?: number | undefined },
): Promise<void> {
  const { message, is_gone = false, asked = 0 } = given;
  await many(db, 'select from payment_unanswered(:id, :message, :is_gone, :asked)', {
    id,
    message,
    is_gone,
    asked,
  });
}

/** Keeps the key of a capture that is under way at the provider; null forgets it. */
export async function holdCaptureKey(db: Db, id: string, key: string | null): Promise<void> {
  await many(db, 'update payment_sessions set capture_key = :key where id = :id', { id, key });
}
