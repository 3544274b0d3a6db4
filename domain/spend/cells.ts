import type { Edition } from './editions';
import type { Period } from './periods';

// Where the figures of a period are: each source is a query with the columns `day`, `hour`, `tag`,
// `session_id` and those of a cell. What is folded is read from the rollup, the rest from the
// ledger, in one statement and so of one instant.

const cell = `key_id, user_id, team_id, agent_id, family, provider, model, cost_nanos, requests, prompt_tokens,
  completion_tokens, cached_tokens`;

const negative = `key_id, user_id, team_id, agent_id, family, provider, model, -cost_nanos, -requests, -prompt_tokens,
  -completion_tokens, -cached_tokens`;

/** Settlements of the organization that are in no rollup yet. */
const unfolded = '(select u.* from spent_in(unfolded_spend(:org_id, :edition, :time_zone)) as u)';

const in_days = 'day >= :from_day::date and day < :to_day::date';
const in_hours = 'hour >= :from_at::timestamptz and hour < :to_at::timestamptz';

const days = `
  select day, null::timestamptz as hour, '' as tag, '' as session_id, ${cell} from spend_days
  where edition = :edition and ${in_days}
  union all
  select day, hour, '', '', ${cell} from ${unfolded} as s where ${in_days}`;

const hours = `
  select null::date as day, hour, '' as tag, '' as session_id, ${cell} from spend_hours
  where edition = :edition and ${in_hours}
  union all
  select day, hour, '', '', ${cell} from ${unfolded} as s where ${in_hours}`;

/** Tags that have a name of their own, of an organization and day; the others are one. */
const TAGS_MAX = 1_000;

// What is not folded gets its names as `fold_tags` gives them.
const tags = `
  with tail as materialized (
    select s.* from ${unfolded} as s where s.tags is not null and ${in_days}
  ), unknown as (
    select distinct s.day, u.tag from tail s cross join unnest(s.tags) as u (tag)
    where not exists (select 1 from spend_tags k where k.edition = :edition and k.day = s.day and k.tag = u.tag)
  ), named as (
    select q.day, q.tag from (select u.*, row_number() over (partition by u.day order by u.tag) as nth from unknown u) as q
    where q.nth <= ${TAGS_MAX} - (select count(*) from spend_tags k where k.edition = :edition and k.day = q.day)
  )
  select day, null::timestamptz as hour, tag, '' as session_id, ${cell} from spend_tag_days
  where edition = :edition and ${in_days}
  union all
  select s.day, s.hour, u.tag, '', ${cell} from tail as s
  cross join lateral (
    select distinct case when exists (select 1 from spend_tags k where k.edition = :edition and k.day = s.day and k.tag = n.tag)
      or exists (select 1 from named m where m.day = s.day and m.tag = n.tag) then n.tag else 'other' end as tag
    from unnest(s.tags) as n (tag)) as u`;

/** Settlements of some reservations, by the ledger. */
const settledOf = (reservations: string) => `
  select s.day, s.hour, '' as tag, coalesce(s.session_id, '') as session_id, s.key_id, s.user_id, s.team_id, s.agent_id, s.family,
    s.provider, s.model, s.cost_nanos, s.requests, s.prompt_tokens, s.completion_tokens, s.cached_tokens
  from wallet_transactions t
  cross join lateral (select q as call from reservations q where q.id = t.reservation_id limit 1) as r
  cross join lateral spend_of(t, r.call, :time_zone) as s
  where t.reservation_id = any(array(${reservations})) and t.type = 'settlement'`;

const of_one_session = `
  select q.* from (${settledOf('select c.id from reservations c where c.org_id = :org_id and c.session_id = :session_id')}) as q`;

// A settlement is written a moment after its call is closed; what a person charged beyond a bound,
// long after.
const closed = `
  select c.id from reservations c where c.org_id = :org_id and c.session_id is not null and c.closed_at is not null
    and c.closed_at >= :from_at::timestamptz - interval '1 hour' and c.closed_at < :to_at::timestamptz + interval '1 hour'
  union
  select x.reservation_id from settlement_excess x where x.org_id = :org_id and x.status = 'charged'
    and x.decided_at >= :from_at::timestamptz - interval '1 hour' and x.decided_at < :to_at::timestamptz + interval '1 hour'`;

const all_sessions = `
  with of_sessions as materialized (
    select q.* from (${settledOf(closed)}) as q where q.session_id <> '' and ${in_days}
  )
  select * from of_sessions
  union all
  select day, hour, tag, '', ${negative} from of_sessions
  union all
  select * from (${days}) as d`;

/** The figures of a period, by what they are asked for. */
export function cellsOf(
  { interval }: Pick<Period, 'interval'>,
  by: { tag: boolean; session: boolean; session_id: string | undefined },
): string {
  const within = interval === 'hour' ? in_hours : in_days;
  if (by.session_id !== undefined) return `select * from (${of_one_session}) as q where ${within}`;
  if (by.session) return all_sessions;
  if (by.tag) return tags;
  return interval === 'hour' ? hours : days;
}

/** What the sources are bound to. */
export function bindingsOf(
  { edition, time_zone }: Edition,
  { from, to, from_day, to_day }: Period,
) {
  return { edition, time_zone, from_at: from, to_at: to, from_day, to_day };
}
