import { AppError } from '../errors';
import { type Db, many } from '../sql';
import type { OwnerType, Viewer } from './wallets';

interface Balances {
  user_balance_nanos: bigint;
  team_balance_nanos: bigint;
  org_balance_nanos: bigint;
  effective_available_balance_nanos: bigint;
  effective_wallet_owner_type: OwnerType;
  reserve_buffer_pct: number;
  currency: string;
}

/**
 * The balance that a person could spend: the first of user, team and organization with a positive
 * balance, the organization if none. Without `team_id` the person's only team counts; with several
 * the team is skipped.
 */
export async function balances(
  db: Db,
  viewer: Viewer,
  team_id: string | undefined,
): Promise<Balances> {
  const [found] = await balancesFor(db, viewer, [await teamOf(db, viewer, team_id)]);
  if (found === undefined) throw new AppError('not_found', 'No organization was found.');
  return found;
}

/** The same for each of a person's teams, by their order; null: without a team. */
export async function balancesFor(
  db: Db,
  { org_id, user_id }: Pick<Viewer, 'org_id' | 'user_id'>,
  teams: readonly (string | null)[],
): Promise<Balances[]> {
  const rows = await many<
    Omit<Balances, 'effective_available_balance_nanos' | 'effective_wallet_owner_type'>
  >(
    db,
    `select coalesce(u.balance_nanos, 0) as user_balance_nanos, coalesce(t.balance_nanos, 0) as team_balance_nanos,
       coalesce(w.balance_nanos, 0) as org_balance_nanos, o.reserve_buffer_pct::float as reserve_buffer_pct, o.currency
     from organizations o
     cross join unnest(:teams::text[]) with ordinality as q (team_id, n)
     left join wallets w on w.org_id = o.id and w.owner_type = 'organization'
     left join wallets u on u.org_id = o.id and u.owner_type = 'user' and u.owner_user_id = :user_id
     left join wallets t on t.org_id = o.id and t.owner_type = 'team' and t.owner_team_id = q.team_id
     where o.id = :org_id order by q.n`,
    { org_id, user_id, teams: [...teams] },
  );
  return rows.map(withEffective);
}

function withEffective({
  reserve_buffer_pct,
  currency,
  ...parts
}: Omit<Balances, 'effective_available_balance_nanos' | 'effective_wallet_owner_type'>): Balances {
  const { user_balance_nanos, team_balance_nanos, org_balance_nanos } = parts;
  const type = user_balance_nanos > 0n ? 'user' : team_balance_nanos > 0n ? 'team' : 'organization';
  const effective = {
    user: user_balance_nanos,
    team: team_balance_nanos,
    organization: org_balance_nanos,
  }[type];
  return {
    ...parts,
    effective_available_balance_nanos: effective,
    effective_wallet_owner_type: type,
    reserve_buffer_pct,
    currency,
  };
}

async function teamOf(db: Db, viewer: Viewer, team_id: string | undefined): Promise<string | null> {
  const teams = await many<{ id: string }>(
    db,
    `select t.id from teams t
     where t.org_id = :org_id and t.archived_at is null and (:team_id::text is null or t.id = :team_id)
       and ((:sees_all and :team_id::text is not null)
         or exists (select 1 from team_members m where m.team_id = t.id and m.user_id = :user_id))
     limit 2`,
    { ...viewer, team_id: team_id ?? null },
  );
  if (team_id !== undefined && teams.length === 0) {
    throw new AppError('not_found', 'No team was found under this id.', { param: 'team_id' });
  }
  return teams.length === 1 ? (teams[0]?.id ?? null) : null;
}
