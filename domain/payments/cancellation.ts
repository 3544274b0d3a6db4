import type { Secrets } from '../secrets';
import { type Db, one } from '../sql';

/** A buyer's wish to end a session, as it travels through Temporal. */
export interface Cancellation {
  payment_session_id: string;
  /** Database clock; later it changes nothing. */
  valid_until?: string | undefined;
  signature?: string | undefined;
}

const LIFE_SECONDS = 30;

/** The wish with an API's signature: whoever can send to a workflow ends nobody's checkout. */
export async function sign(
  db: Db,
  secrets: Secrets,
  payment_session_id: string,
): Promise<Cancellation> {
  const row = await one<{ valid_until: Date }>(
    db,
    `select clock_timestamp() + :seconds * interval '1 second' as valid_until`,
    { seconds: LIFE_SECONDS },
  );
  const valid_until = row.valid_until.toISOString();
  const signature = await secrets.sign('payment_cancel', payment_session_id, valid_until);
  return { payment_session_id, valid_until, signature };
}

/** True if an API signed it, not long ago. */
export async function isSigned(
  db: Db,
  secrets: Secrets,
  { payment_session_id, valid_until, signature }: Cancellation,
): Promise<boolean> {
  if (typeof signature !== 'string' || typeof valid_until !== 'string') return false;
  if (!(await secrets.isSigned(signature, 'payment_cancel', payment_session_id, valid_until)))
    return false;
  const { is_valid } = await one<{ is_valid: boolean }>(
    db,
    'select clock_timestamp() <= :valid_until::timestamptz as is_valid',
    { valid_until },
  );
  return is_valid;
}
