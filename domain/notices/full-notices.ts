import { type Db, many } from '../sql';
import { type Notice, notice_columns } from './messages';

/** A notice with what its event says (money under keys that end in `_nanos`) and who is meant. */
export interface FullNotice extends Notice {
  payload: Record<string, unknown>;
  org_name: string | null;
  /** In which times are told; null for the platform's. */
  time_zone: string | null;
  user_name: string | null;
  team_name: string | null;
  /** Whose wallet or budget it is about; null for the organization's own. */
  owner_name: string | null;
  /** Who decided on a ticket; null for what is no person. */
  decider_name: string | null;
  /** How the ticket that it is of stands now; null for all else. */
  ticket_status: string | null;
  /** How the refund or dispute that it is of stands at its provider; null for all else. */
  claim_status: string | null;
  /** What that has moved last, in or out of the wallet; null if nothing is known to. */
  moved_nanos: bigint | null;
}

/** The notices of a message, oldest first, at most so many. */
export function noticesOf(db: Db, message_id: string, most: number): Promise<FullNotice[]> {
  return many<FullNotice>(
    db,
    `select ${notice_columns}, n.payload, (select o.name from organizations o where o.id = n.org_id) as org_name,
       (select o.time_zone from organizations o where o.id = n.org_id) as time_zone,
       (select u.name from users u where u.id = n.payload ->> 'user_id') as user_name,
       (select t.name from teams t where t.id = n.payload ->> 'team_id' and t.org_id = n.org_id) as team_name,
       (select case when c.status in ('open', 'approved') and c.expires_at <= clock_timestamp() then 'expired' else c.status end
         from cost_tickets c where c.id = n.cost_ticket_id and c.org_id = n.org_id) as ticket_status,
       (select d.name from users d where d.id = n.payload ->> 'decided_by') as decider_name, coalesce(
         (select coalesce(u.name, t.name) from wallets w left join users u on u.id = w.owner_user_id
           left join teams t on t.id = w.owner_team_id where w.id = n.payload ->> 'wallet_id' and w.org_id = n.org_id),
         (select u.name from users u where u.id = n.payload ->> 'owner_id'),
         (select t.name from teams t where t.id = n.payload ->> 'owner_id' and t.org_id = n.org_id),
         (select k.name from tokens k where k.id = n.payload ->> 'owner_id' and k.org_id = n.org_id)) as owner_name,
       coalesce((select c.value ->> 'status' from payment_sessions s cross join lateral jsonb_array_elements(s.refunds || s.disputes) as c
         where s.id = n.payload ->> 'payment_session_id' and s.org_id = n.org_id and n.payload ->> 'cause_id'
           in (c.value ->> 'id', c.value ->> 'payment_refund_id', c.value ->> 'provider_refund_id') limit 1),
         (select o.status from payment_refunds o where o.id = n.payload ->> 'cause_id' and o.org_id = n.org_id)) as claim_status,
       (select abs(t.amount_nanos) from payment_entries e join wallet_transactions t on t.id = e.transaction_id
         where e.payment_session_id = n.payload ->> 'payment_session_id' and e.cause_id = n.payload ->> 'cause_id'
           and t.org_id = n.org_id and t.created_at <= n.created_at order by t.seq desc limit 1) as moved_nanos
     from notices n where n.message_id = :message_id order by n.id limit :most`,
    { message_id, most },
  );
}
