import type { Secrets } from '../secrets';
import { type Db, many, one } from '../sql';

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

/**
 * Writes into the audit log that somebody asked for it, once for each status that they met: whoever
 * asks again and again fills no log that is kept for ever. The workflow cancels the session once
 * its provider knows, and that is written as what the worker did.
 */
export async function noteAsked(
  trx: Db,
  { id, org_id, status }: { id: string; org_id: string; status: string },
): Promise<void> {
  const state = JSON.stringify({ status });
  await many(
    trx,
    `select write_audit_event(:org_id, 'payment.cancel_asked', :id, :state::jsonb, :state::jsonb)
     where not exists (select 1 from audit_events e where e.object_id = :id and e.org_id = :org_id
       and e.action = 'payment.cancel_asked' and e.actor is not distinct from acting() and e.after = :state::jsonb)`,
    { id, org_id, state },
  );
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
