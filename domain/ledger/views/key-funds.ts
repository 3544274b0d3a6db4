import { noOrganization } from '../../known';
import type { CallerBody } from '../../people/identity';
import { type Db, many, maybe } from '../../sql';
import { balancesFor } from '../balances';
import { type BudgetOwner, type BudgetWindow, from } from '../budget-lists';
import type { OwnerType } from '../wallets';

/** How the key of a caller stands: what it may still spend, and from which wallet. */
export interface KeyFunds {
  /** Null: another proof says who calls, and names no key. */
  key: { id: string; name: string; expires_at: Date | null } | null;
  currency: string;
  /** What the organization pays of each price, exact. */
  price_factor: string;
  /** Its own keys, by which it pays otherwise; absent if it has none. */
  own_keys?: OwnKeyFactor[];
  /** Those that count the caller's calls, as far as the caller may see them. */
  budgets: OwnBudget[];
  /** Of the wallet that would pay now; null where the key's person may not see it. */
  wallet: { owner_type: OwnerType; balance_nanos: bigint } | null;
}

/** What calls that an own key serves pay of each price. */
export interface OwnKeyFactor {
  provider: string;
  /** In the place of the organization's, exact. */
  price_factor: string;
  /** `first`: the platform's key may serve in its place, at the organization's factor. */
  own_keys: 'only' | 'first';
}

interface OwnBudget {
  /** Null for the max_budget of a key's whole life. */
  id: string | null;
  owner_type: BudgetOwner;
  window: BudgetWindow;
  on_exceed: 'refuse' | 'ticket';
  /** In this window, raises included. */
  limit_nanos: bigint;
  /** Below zero if calls cost more than they held. */
  remaining_nanos: bigint;
  /** Null for a life. */
  resets_at: Date | null;
}

/**
 * How a caller stands whom a gateway knows. Money of others is shown to a living member of the
 * organization, and of a team to one who is in it. Throws `not_found` for another organization.
 */
export async function fundsOf(db: Db, caller: CallerBody): Promise<KeyFunds> {
  const { org_id, user_id = null, team_id = null } = caller;
  const { currency, price_factor, own_keys, is_member, life, ...found } = await keyOf(db, caller);
  const owners = [found.id, ...(is_member ? [user_id, team_id, org_id] : [])];
  const budgets = await budgetsOf(
    db,
    org_id,
    owners.filter((id) => id !== null),
  );
  const [balances] = is_member ? await balancesFor(db, { org_id, user_id }, [team_id]) : [];
  const { id, name, expires_at } = found;
  return {
    key: id === null || name === null ? null : { id, name, expires_at },
    currency,
    price_factor,
    ...(own_keys === null ? {} : { own_keys }),
    budgets: life === null ? budgets : [{ ...life_budget, ...life }, ...budgets],
    wallet: balances
      ? {
          owner_type: balances.effective_wallet_owner_type,
          balance_nanos: balances.effective_available_balance_nanos,
        }
      : null,
  };
}

const life_budget = {
  id: null,
  owner_type: 'key',
  window: 'life',
  on_exceed: 'refuse',
  resets_at: null,
} as const;

interface FoundKey {
  id: string | null;
  name: string | null;
  expires_at: Date | null;
  currency: string;
  price_factor: string;
  own_keys: OwnKeyFactor[] | null;
  is_member: boolean;
  limit_nanos: bigint | null;
  remaining_nanos: bigint | null;
}

async function keyOf(db: Db, caller: CallerBody) {
  const row = await maybe<FoundKey>(
    db,
    `select t.id, t.name, least(t.expires_at, s.expires_at) as expires_at, o.currency,
       trim_scale(o.price_factor)::text as price_factor,
       (select jsonb_agg(jsonb_build_object('provider', k.provider, 'price_factor', trim_scale(k.price_factor)::text,
         'own_keys', k.own_keys) order by k.provider) from provider_keys k where k.org_id = o.id and k.revoked_at is null) as own_keys,
       t.max_budget_nanos as limit_nanos,
       case when t.max_budget_nanos is not null
         then greatest(t.max_budget_nanos::numeric - t.spent_nanos - t.held_nanos, -9223372036854775807) end::bigint as remaining_nanos,
       exists (select 1 from memberships m where m.org_id = o.id and m.user_id = :user_id and m.archived_at is null)
         and (:team_id::text is null or exists (select 1 from team_members x join teams y on y.id = x.team_id
           where y.id = :team_id and y.org_id = o.id and y.archived_at is null and x.user_id = :user_id)) as is_member
     from organizations o
     left join tokens t on t.id = :key_id and t.org_id = o.id and t.token_type = 'gateway'
     left join token_secrets s on s.id = :secret_id and s.token_id = t.id
     where o.id = :org_id`,
    { key_id: null, secret_id: null, user_id: null, team_id: null, ...caller },
  );
  if (row === undefined) throw noOrganization();
  const { limit_nanos, remaining_nanos, ...found } = row;
  const has_life = limit_nanos !== null && remaining_nanos !== null;
  return { ...found, life: has_life ? { limit_nanos, remaining_nanos } : null };
}

function budgetsOf(db: Db, org_id: string, owners: readonly string[]): Promise<OwnBudget[]> {
  return many<OwnBudget>(
    db,
    `select b.id, b.owner_type, b.budget_window as "window", b.on_exceed, budget_cap(b, clock_timestamp())::bigint as limit_nanos,
       greatest(budget_cap(b, clock_timestamp()) - budget_used(b, clock_timestamp()), -9223372036854775807)::bigint as remaining_nanos,
       s.ends_at as resets_at
     ${from} and b.owner_id = any(:owners) order by b.id`,
    { org_id, owners: [...owners] },
  );
}
