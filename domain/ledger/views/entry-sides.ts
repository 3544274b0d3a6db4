/** What an entry says of its other side and of who caused it. */
export interface Sides {
  /** The other wallet of a transfer; null if it is not the viewer's matter. */
  counterpart: {
    wallet_id: string;
    owner_type: 'organization' | 'team' | 'user';
    owner_id: string;
    owner_name: string;
  } | null;
  /**
   * Who caused it: the actor, who paid, or who asked for the refund. The name is null of what has
   * none, and of what the viewer is not told.
   */
  made_by: { id: string; name: string | null } | null;
}

// A person's wallet is named to that person and to who bills; others see it in no list either.
const counterpart = `(select jsonb_build_object('wallet_id', w.id, 'owner_type', w.owner_type,
    'owner_id', coalesce(w.owner_user_id, w.owner_team_id, w.org_id),
    'owner_name', coalesce((select u.name from users u where u.id = w.owner_user_id),
      (select q.name from teams q where q.id = w.owner_team_id), (select o.name from organizations o where o.id = w.org_id)))
  from wallet_transactions s join wallets w on w.id = s.wallet_id
  where t.transfer_id is not null and s.transfer_id = t.transfer_id and s.wallet_id <> t.wallet_id and w.org_id = t.org_id
    and (:sees_all or w.owner_type <> 'user' or w.owner_user_id = :viewer_id) limit 1)`;

// A payment is its buyer's, a refund of ours is of whoever asked for it; what a provider reports
// by itself is nobody's.
const caused = `coalesce(t.actor, (select case when e.cause_id is null then coalesce(p.user_id, p.created_by)
    else (select r.requested_by from payment_refunds r where r.id = e.cause_id) end
  from payment_entries e join payment_sessions p on p.id = e.payment_session_id where e.transaction_id = t.id
    and (e.cause_id is null or t.type = 'payment_refund')))`;

const name = `coalesce((select u.name from users u where u.id = m.id
    and exists (select 1 from memberships b where b.org_id = t.org_id and b.user_id = u.id)),
  (select k.name from tokens k where k.id = m.id and k.org_id = t.org_id and (:sees_all or k.user_id = :viewer_id)),
  (select a.name from approval_rules a where a.id = m.id and a.org_id = t.org_id and :sees_all))`;

/** The columns of `Sides`, of an entry `t`; bound as `seenBy` says. */
export const sides = `${counterpart} as counterpart,
  (select jsonb_build_object('id', m.id, 'name', ${name}) from (select ${caused} as id) as m where m.id is not null) as made_by`;
