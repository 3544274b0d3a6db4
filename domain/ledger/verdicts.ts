import { AppError, type ErrorCode } from '../errors';
import { type Db, one } from '../sql';
import { refusals } from './refusals';
import type { TicketStatus } from './tickets';

/** What a person decided. It travels through the workflow's update, so it is plain JSON; amounts are nanos as text. */
export interface Verdict {
  /** Random, one a verdict: delivered twice it is recorded once. */
  id?: string | undefined;
  ticket_id: string;
  org_id: string;
  verdict: 'approved' | 'denied';
  /** Id of the person or key. */
  by: string;
  /** Given past the workflow, which is then told of it. */
  by_terminal?: true | undefined;
  /** Platform admins may credit where an organization may only transfer. */
  is_platform: boolean;
  /** Database clock; recorded later the verdict changes nothing. */
  valid_until: string;
  amount_nanos?: string | undefined;
  wallet_id?: string | undefined;
  note?: string | undefined;
}

const VERDICT_SECONDS = 30;

/** Until when a verdict given now may be recorded, by the database's clock. */
export async function verdictDeadline(db: Db): Promise<string> {
  const { valid_until } = await one<{ valid_until: Date }>(
    db,
    `select clock_timestamp() + :seconds * interval '1 second' as valid_until`,
    { seconds: VERDICT_SECONDS },
  );
  return valid_until.toISOString();
}

/**
 * Records a verdict. Approving credits the shortfall (or `amount`) and holds it in one step; a repeat changes nothing.
 * Throws 409 where the ticket is closed otherwise, or the key, budget or cap refuses the hold; then nothing is credited.
 */
export async function decide(db: Db, verdict: Verdict): Promise<TicketStatus> {
  const { ticket_id, org_id } = verdict;
  const name = verdict.verdict === 'approved' ? 'approve_ticket' : 'deny_ticket';
  const { code } = await one<{ code: string | null }>(
    db,
    `select code from ${name}(:org_id, :ticket_id, :verdict)`,
    { org_id, ticket_id, verdict: JSON.stringify(verdict) },
  );
  if (code !== null && code !== 'repeated') throw refusedVerdict(code);
  return verdict.verdict;
}

// What a person can do about a refused verdict, where that is not what a refused reserve says.
const verdictRefusals: Record<string, { code: ErrorCode; message: string }> = {
  ticket_approved: { code: 'ticket_approved', message: 'This cost ticket was approved already.' },
  ticket_denied: { code: 'ticket_denied', message: 'This cost ticket was denied already.' },
  ticket_redeemed: {
    code: 'ticket_redeemed',
    message: 'This cost ticket has been redeemed: its request is paid.',
  },
  verdict_too_late: {
    code: 'verdict_too_late',
    message:
      'The verdict arrived too late and changed nothing. Look at the ticket, then repeat it.',
  },
  wallet_not_of_ticket: {
    code: 'invalid_field',
    message: "wallet_id must be one of the ticket's wallets.",
  },
  manual_credit_not_allowed: {
    code: 'manual_credit_not_allowed',
    message:
      "This organization's own wallet is filled by the platform only. Name a user's or team's wallet of the ticket, which is filled by a transfer.",
  },
  amount_below_shortfall: {
    code: 'amount_below_shortfall',
    message:
      'The amount does not cover the shortfall of the wallet. Leave it out to credit exactly what is missing.',
  },
  amount_too_large: {
    code: 'amount_too_large',
    message: 'A wallet holds at most 9000000000 of its currency.',
  },
  insufficient_balance: {
    code: 'insufficient_balance',
    message: "The organization's wallet does not cover the transfer.",
  },
};

// Ids that are unknown or wrong are no conflict with how things are.
const fields: Record<string, string> = {
  wallet_not_of_ticket: 'wallet_id',
  amount_too_large: 'amount',
};

function refusedVerdict(code: string): AppError {
  const known = verdictRefusals[code] ?? refusals[code];
  if (known === undefined) return new AppError('internal_error', `Unknown refusal ${code}.`);
  const param = fields[code];
  if (param) return new AppError(known.code, known.message, { param });
  const status = code === 'ticket_not_found' ? 404 : 409;
  return new AppError(known.code, known.message, { status });
}
