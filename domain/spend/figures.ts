import { ledTeams } from '../people/team-rights';
import { type Db, many, one } from '../sql';
import { bindingsOf, cellsOf } from './cells';
import type { Edition } from './editions';
import type { Filter } from './filters';
import type { Period } from './periods';

/** What spend is grouped by, and the column of each. */
const columns = {
  model: 'model',
  provider: 'provider',
  team: 'team_id',
  user: 'user_id',
  agent: 'agent_id',
  key: 'key_id',
  family: 'family',
  session: 'session_id',
  tag: 'tag',
} as const;

export type Dimension = keyof typeof columns;

export const dimensions = Object.keys(columns) as Dimension[];

/** Who asks: whoever bills sees all, others what they and the teams that they lead spend. */
export interface SpendViewer {
  org_id: string;
  user_id: string | null;
  sees_all: boolean;
}

export interface Figures {
  cost_nanos: bigint;
  /** Calls that were settled. What failed and cost nothing is none. */
  requests: number;
  prompt_tokens: number;
  completion_tokens: number;
  cached_tokens: number;
}

/** What the figures are of, by dimension; null: calls that have none. */
export type Group = Partial<Record<Dimension, string | null>>;

/** Which figures: of whom, of which period, and how many groups at most. */
export interface Query {
  viewer: SpendViewer;
  filter: Filter;
  edition: Edition;
  period: Period;
  dims: readonly Dimension[];
  bucket: { start: string; local: string };
  groups_max: number;
}

interface Row extends Partial<Record<(typeof columns)[Dimension], string>> {
  start: Date;
  local: string;
  /** 1: the dearest group; 0: the totals. */
  rank: number;
  groups: number;
  cost_nanos: string;
  requests: string | bigint;
  prompt_tokens: string;
  completion_tokens: string;
  cached_tokens: string;
}

const summed = ['cost_nanos', 'requests', 'prompt_tokens', 'completion_tokens', 'cached_tokens'];
const sums = summed.map((name) => `coalesce(sum(${name}), 0) as ${name}`).join(', ');

/** The rows of a query, its totals, and what they are of. */
export async function read(db: Db, query: Query) {
  const { viewer, edition, period, dims, filter } = query;
  const found = await rowsOf(db, query);
  // A call with several tags counts in the totals once.
  const counts_again = dims.includes('tag') && filter.tag === undefined;
  const all = counts_again ? await rowsOf(db, { ...query, dims: [], groups_max: 1 }) : found;
  const total = all.find((row) => row.rank === 0) as Row;
  const head = await one<{ currency: string; as_of: Date }>(
    db,
    'select currency, now() as as_of from organizations where id = :org_id',
    { org_id: viewer.org_id },
  );
  const rows = found.filter((row) => row.rank > 0);
  return {
    ...head,
    time_zone: edition.time_zone,
    from: period.from,
    to: period.to,
    totals: figuresOf(total),
    truncated: (rows[0]?.groups ?? 0) > query.groups_max,
    rows,
  };
}

function rowsOf(db: Db, { viewer, filter, edition, period, dims, bucket, groups_max }: Query) {
  const by = {
    tag: dims.includes('tag') || filter.tag !== undefined,
    session: dims.includes('session'),
    session_id: filter.session_id,
  };
  const { session_id: _, ...equal } = filter;
  const named = Object.entries(equal).filter(([, value]) => value !== undefined);
  const conditions = [
    viewer.sees_all
      ? 'true'
      : `((:viewer_id::text is not null and user_id = :viewer_id) or team_id in (${ledTeams('org_id', 'viewer_id')}))`,
    ...named.map(([name]) => `${name} = :${name}`),
  ];
  const keys = ['one', ...dims.map((dim) => columns[dim])].join(', ');
  const shown = [`'' as one`, ...dims.map((dim) => columns[dim])].join(', ');
  const none = ['one', ...dims].map(() => `''`).join(', ');
  return many<Row>(
    db,
    `with cells as (${cellsOf(period, by)}),
     grouped as materialized (
       select ${bucket.start} as start, ${shown}, ${sums} from cells where ${conditions.join(' and ')}
       group by start, ${keys} having sum(cost_nanos) <> 0 or sum(requests) <> 0
     ), ranked as (
       select ${keys}, (row_number() over (order by sum(cost_nanos) desc, ${keys}))::int as rank, (count(*) over ())::int as groups
       from grouped group by ${keys}
     )
     select *, ${bucket.local} as local from grouped join ranked using (${keys}) where rank <= :groups_max
     union all
     select ${none}, null, ${sums}, 0, 0, '' from grouped
     order by start, rank`,
    {
      ...bindingsOf(edition, period),
      ...Object.fromEntries(named),
      org_id: viewer.org_id,
      viewer_id: viewer.user_id,
      session_id: filter.session_id ?? null,
      groups_max,
    },
  );
}

export function figuresOf(row: Row): Figures {
  return {
    cost_nanos: BigInt(row.cost_nanos),
    requests: Number(row.requests),
    prompt_tokens: Number(row.prompt_tokens),
    completion_tokens: Number(row.completion_tokens),
    cached_tokens: Number(row.cached_tokens),
  };
}

export function groupOf(row: Row, dims: readonly Dimension[]): Group {
  return Object.fromEntries(dims.map((dim) => [dim, row[columns[dim]] || null]));
}
