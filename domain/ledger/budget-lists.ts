import { type ListRequest, listOf, type Part } from '../lists';
import { isNamedPerson, named } from '../named';
import type { Page } from '../pages';
import type { Db } from '../sql';

/** Whose calls a budget counts. */
export type BudgetOwner = 'key' | 'user' | 'team' | 'organization';
/** A calendar window of the organization's time zone, or `life`, which never ends. */
export type BudgetWindow = 'hour' | 'day' | 'week' | 'month' | 'life';

/** What people set of a budget. Amounts are nanos of the organization's currency. */
export interface BudgetFields {
  limit_nanos: bigint;
  window: BudgetWindow;
  /** `ticket`: a call beyond it waits for a verdict, and is not refused. */
  on_exceed: 'refuse' | 'ticket';
  /** Percents of the limit that are told, each once a window; 1 to 100. */
  thresholds: readonly number[];
}

/** A budget as it stands in the window of now. */
export interface Budget extends BudgetFields {
  id: string;
  org_id: string;
  owner_type: BudgetOwner;
  owner_id: string;
  owner_name: string;
  /** What approvals have added to this window. */
  raised_nanos: bigint;
  spent_nanos: bigint;
  held_nanos: bigint;
  /** What is left of limit and raises; below zero if calls cost more than they held. */
  remaining_nanos: bigint;
  currency: string;
  starts_at: Date;
  /** Null for a life. */
  resets_at: Date | null;
  /** True for the max_budget of a key, which is changed with the key. */
  is_max_budget: boolean;
  created_by: string | null;
  created_at: Date;
  updated_at: Date;
}

/** The columns of a budget. A window that is over is shown as the next one. */
export const columns = `
  select b.id, b.org_id, b.owner_type, b.owner_id, coalesce(k.name, u.name, m.name, o.name) as owner_name, b.limit_nanos,
    b.budget_window as "window", b.on_exceed, b.thresholds, s.raised_nanos, s.spent_nanos, s.held_nanos,
    greatest(budget_cap(b, clock_timestamp()) - budget_used(b, clock_timestamp()), -9223372036854775807)::bigint as remaining_nanos,
    o.currency, s.starts_at, s.ends_at as resets_at, b.is_max_budget, b.created_by, b.created_at, b.updated_at`;
/** The living budgets of an organization with their owners: `from ... where ...`. */
export const from = `
  from budgets b
  join organizations o on o.id = b.org_id
  left join tokens k on b.owner_type = 'key' and k.id = b.owner_id
  left join users u on b.owner_type = 'user' and u.id = b.owner_id
  left join teams m on b.owner_type = 'team' and m.id = b.owner_id
  cross join lateral (select
      case when n.is_over then 0::bigint else b.raised_nanos end as raised_nanos,
      case when n.is_over then 0::bigint else b.spent_nanos end as spent_nanos,
      case when n.is_over then 0::bigint else b.held_nanos end as held_nanos,
      case when n.is_over then greatest((n.w).starts_at, b.ends_at) else b.starts_at end as starts_at,
      case when n.is_over then (n.w).ends_at else b.ends_at end as ends_at
    from (select coalesce(b.ends_at <= clock_timestamp(), false) as is_over,
      reporting_window(b.budget_window, o.time_zone, clock_timestamp()) as w) as n) as s
  where b.org_id = :org_id and b.archived_at is null`;

interface ListFilter {
  org_id: string;
  owner_type?: BudgetOwner | undefined;
  owner_id?: string | undefined;
  /** Words of the owner's name. */
  q?: string | undefined;
  /** Only what counts this person's own calls; null is all. */
  user_id: string | null;
}

const search = {
  found: `select v.id from (${named.users} union all ${named.teams} union all ${named.keys}
      union all select n.id from organizations n where n.id = :org_id and has_words(array[n.name], :q)) as n
    cross join lateral (select b.id from budgets b
      where b.org_id = :org_id and b.archived_at is null and b.owner_id = n.id offset 0) as v`,
  plain: `case b.owner_type when 'user' then ${isNamedPerson('b.owner_id')}
    else has_words(array[coalesce(k.name, m.name, o.name)], :q) end`,
  among: 'select b.id from budgets b where b.org_id = :org_id and b.archived_at is null',
};

/** An organization's budgets, as they were made. */
export function list(
  db: Db,
  { org_id, owner_type, owner_id, q, user_id }: ListFilter,
  request: ListRequest,
): Promise<Page<Budget> | Part<Budget>> {
  const conditions = [
    from,
    ...(owner_type ? ['b.owner_type = :owner_type'] : []),
    ...(owner_id ? ['b.owner_id = :owner_id'] : []),
    ...(user_id === null ? [] : [isOfOwnCalls]),
  ];
  return listOf<Budget>(
    db,
    {
      name: 'budgets',
      select: columns,
      from: conditions.join(' and '),
      bindings: {
        org_id,
        user_id,
        owner_type: owner_type ?? null,
        owner_id: owner_id ?? null,
        q: q ?? null,
      },
      search: q ? search : undefined,
      id: 'b.id',
      created_at: 'b.created_at',
      orders: { created_at: { by: 'b.created_at', type: 'timestamptz' } },
    },
    request,
  );
}

const isOfOwnCalls = `(b.owner_id in (:org_id, :user_id) or (b.owner_type = 'key' and k.user_id = :user_id)
  or (b.owner_type = 'team' and exists (select 1 from team_members x where x.team_id = b.owner_id and x.user_id = :user_id)))`;
