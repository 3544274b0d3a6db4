import { Refusal } from './client';

/** Something that a person means to do once, in however many tries. */
export interface Intent {
  /** Its Idempotency-Key. */
  key: string;
  /** The answer to a try was lost: it may be done. */
  is_unsure: boolean;
}

/** A new intent: made when a form opens, kept until it is done. */
export function newIntent(): Intent {
  return { key: crypto.randomUUID(), is_unsure: false };
}

/** Statuses of refusals that the API gives only once it has looked the key up. */
const of_the_act = [402, 409, 410];

/**
 * The intent of the next try. A refusal says that the thing was not done, so that the next try is
 * another intent; but not after an answer that was lost, if it may have been given before the key
 * was looked up, as those of a session that has ended, a role that was taken away or too many
 * requests are: the lost try may have done it all the same.
 */
export function intentAfter(intent: Intent, refusal: unknown): Intent {
  if (isReused(refusal)) return intent;
  if (!(refusal instanceof Refusal) || refusal.status < 400 || refusal.status >= 500)
    return { ...intent, is_unsure: true };
  const { is_replayed, status } = refusal;
  const is_told = !intent.is_unsure || is_replayed || of_the_act.includes(status);
  return is_told ? newIntent() : intent;
}

/**
 * What a refused change says to the person: the server's words, unless an earlier try under the
 * same key said something else and may have been done.
 */
export function refusedText(refusal: unknown): string {
  if (!(refusal instanceof Refusal)) return 'This is a fault of the console.';
  return isReused(refusal)
    ? 'The first try may have gone through, with what stood here then. Look before you do it again.'
    : refusal.message;
}

/** True if the key of this intent was used for something else, whose answer was lost. */
export function isReused(refusal: unknown): boolean {
  return refusal instanceof Refusal && refusal.code === 'idempotency_key_reused';
}
