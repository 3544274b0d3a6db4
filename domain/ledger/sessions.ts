import { AppError } from '../errors';
import { decimalText } from '../money';
import { type Db, one } from '../sql';
import type { ReserveBody } from './calls';

interface Used {
  actions: number;
  nanos: bigint;
}

/**
 * The refusal of a reserve by the limits of its session, with what the session has come to. It is
 * counted anew behind the decision, so that reserves that pass pay nothing for the words.
 */
export async function sessionRefusal(db: Db, body: ReserveBody): Promise<AppError> {
  const { org_id, session_id = null, session_limits } = body;
  const { actions, nanos } = await one<Used>(
    db,
    `select count(*)::int as actions,
       coalesce(round(sum(coalesce(actual_cost_nanos, held_nanos) / exchange_rate)), 0)::bigint as nanos
     from reservations where org_id = :org_id and session_id = :session_id and status <> 'canceled'`,
    { org_id, session_id },
  );
  const { max_actions, max_cost_usd } = session_limits ?? {};
  const is_of_actions = max_cost_usd == null || (max_actions != null && actions >= max_actions);
  const said = is_of_actions
    ? `This session has used ${actions} of its ${max_actions} actions (max_actions).`
    : `This session has cost ${decimalText(nanos)} of its ${max_cost_usd} USD (max_cost_usd), and this request may cost more than the rest.`;
  return new AppError('session_limit_exceeded', `${said} Begin another session.`);
}
