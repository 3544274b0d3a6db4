import { AppError } from '../errors';
import { decimalText } from '../money';
import { type Db, one } from '../sql';
import type { Redeem, ReserveBody } from './calls';

/** A session, and what it may come to. */
type Session = Pick<ReserveBody, 'session_id' | 'session_limits'>;

interface Used {
  actions: number;
  /** As text: in USD it may be more than a bigint holds. */
  nanos: string;
}

/**
 * The refusal of a reserve or a redeem by the limits of its session, with what the session has come
 * to. It is counted anew behind the decision, so that calls that pass pay nothing for the words.
 */
export async function spentSession(db: Db, body: ReserveBody | Redeem): Promise<AppError> {
  const { org_id } = body;
  const session = 'ticket_id' in body ? await sessionOfTicket(db, body) : body;
  const { session_id = null, session_limits } = session;
  const { actions, nanos } = await one<Used>(
    db,
    `select count(*)::int as actions,
       coalesce(round(sum(coalesce(actual_cost_nanos, held_nanos) / exchange_rate)), 0)::text as nanos
     from reservations where org_id = :org_id and session_id = :session_id and status <> 'canceled'`,
    { org_id, session_id },
  );
  const { max_actions, max_cost_usd } = session_limits ?? {};
  const is_of_actions = max_cost_usd == null || (max_actions != null && actions >= max_actions);
  const said = is_of_actions
    ? `This session has used ${actions} of its ${max_actions} actions (max_actions).`
    : `This session has cost ${decimalText(BigInt(nanos))} of its ${max_cost_usd} USD (max_cost_usd), and this request may cost more than the rest.`;
  return new AppError('session_limit_exceeded', `${said} Begin another session.`);
}

/** A redeem runs the reserve that its ticket has kept. */
function sessionOfTicket(db: Db, { org_id, ticket_id }: Redeem): Promise<Session> {
  return one<Session>(
    db,
    `select session_id, jsonb_build_object('max_actions', reserve -> 'session_max_actions',
       'max_cost_usd', reserve -> 'session_max_cost_usd') as session_limits
     from cost_tickets where org_id = :org_id and id = :ticket_id`,
    { org_id, ticket_id },
  );
}
