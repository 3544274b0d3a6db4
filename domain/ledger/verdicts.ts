import { actAs } from '../audit-events';
import { AppError } from '../errors';
import type { Secrets } from '../secrets';
import { type Db, one } from '../sql';
import { refusals } from './refusals';
import type { TicketStatus } from './tickets';

/**
 * A person's decision on a ticket. It travels in the workflow's update, so it is plain JSON;
 * amounts are nanos as text.
 */
export interface Verdict {
  /** Random, one a verdict: delivered twice it is recorded once. */
  id?: string | undefined;
  /**
   * What it was asked under, with all that was asked: once recorded, a repeat is that verdict, also
   * of a ticket that is open again. Absent without an Idempotency-Key.
   */
  asked_under?: string | undefined;
  ticket_id: string;
  org_id: string;
  verdict: 'approved' | 'denied';
  /** Id of the person or key. */
  by: string;
  /** The key or session that they decided with, and the label of their request. */
  key_id?: string | undefined;
  asked_as?: string | undefined;
  /** Given in a terminal, past the workflow, which then gets a signal. */
  by_terminal?: true | undefined;
  /** A platform admin may credit; an organization may only transfer. */
  is_platform: boolean;
  /** Database clock; recorded later the verdict changes nothing. */
  valid_until: string;
  amount_nanos?: string | undefined;
  /** The wallet that pays for the call, and gets what is missing. */
  wallet_id?: string | undefined;
  /** The wallet that what is missing is moved from; absent, it is credited, where that may be. */
  from_wallet_id?: string | undefined;
  /** Of a team's admin, who is `user_id`: what is missing comes from the team's wallet. */
  authority?: 'team' | undefined;
  user_id?: string | undefined;
  note?: string | undefined;
  /** Over all of it: whoever can send to a workflow is not thereby a person who may decide. */
  signature?: string | undefined;
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

/** The verdict with a signature over each of its members, as it travels through Temporal. */
export async function signed(secrets: Secrets, verdict: Verdict): Promise<Verdict> {
  return { ...verdict, signature: await secrets.sign('verdict', ...partsOf(verdict)) };
}

/** True if an API signed the verdict as it stands. One without an id could count twice. */
export async function isSigned(secrets: Secrets, verdict: Verdict): Promise<boolean> {
  const { id, signature } = verdict;
  if (!id || typeof signature !== 'string') return false;
  return secrets.isSigned(signature, 'verdict', ...partsOf(verdict));
}

// An absent member and an empty one differ: nothing can be added to a verdict that was signed.
function partsOf(verdict: Verdict): string[] {
  const { signature: _, ...rest } = verdict;
  return Object.entries(rest)
    .filter(([, value]) => value !== undefined)
    .sort(([one], [other]) => (one < other ? -1 : 1))
    .map((member) => JSON.stringify(member));
}

/**
 * Records a verdict. Approving raises the budgets that have no room, credits or moves the shortfall
 * (or `amount`) and holds it in one step; a
 * repeat changes nothing. Throws 409 if the ticket is closed otherwise, or the key, budget or cap
 * refuses the hold; then nothing is credited. Throws 403 if whoever decides may do so no longer,
 * by what they may under the organization's lock.
 */
export async function decide(db: Db, verdict: Verdict): Promise<TicketStatus> {
  const { ticket_id, org_id, by, key_id, asked_as: request_id } = verdict;
  const name = verdict.verdict === 'approved' ? 'approve_ticket' : 'deny_ticket';
  const { code } = await db.transaction(async (trx) => {
    await actAs(trx, { actor: by, key_id, request_id });
    return one<{ code: string | null }>(
      trx,
      `select code from ${name}(:org_id, :ticket_id, :verdict)`,
      { org_id, ticket_id, verdict: JSON.stringify(verdict) },
    );
  });
  if (code !== null && code !== 'repeated') throw refusedVerdict(code);
  return verdict.verdict;
}

function refusedVerdict(code: string): AppError {
  const known = refusals[code];
  if (known === undefined) return new AppError('internal_error', `Unknown refusal ${code}.`);
  const message = known.verdict_message ?? known.message;
  // A field that is wrong is no conflict with how things are, nor is an id that is unknown.
  if (known.verdict_param) return new AppError(known.code, message, { param: known.verdict_param });
  if (known.code === 'permission_denied') return new AppError(known.code, message);
  const status = code === 'ticket_not_found' ? 404 : 409;
  return new AppError(known.code, message, { status });
}
