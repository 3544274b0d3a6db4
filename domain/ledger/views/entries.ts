import { AppError } from '../../errors';
import { cursorOf, FIRST, foreignCursor, type Part, placeIn } from '../../lists';
import type { PageRequest } from '../../pages';
import { ledTeams } from '../../people/team-rights';
import { type Db, many, one } from '../../sql';
import { columns, type Transaction } from '../transactions';
import type { Viewer } from '../wallets';
import { type Sides, sides } from './entry-sides';

/** What an entry says of the call that it is of; all null for entries that are of none. */
interface OfCall {
  request_id: string | null;
  user_id: string | null;
  team_id: string | null;
  key_id: string | null;
  agent_id: string | null;
  family: string | null;
  session_id: string | null;
  tags: string[] | null;
  cost_ticket_id: string | null;
  /** Units of the wallet's currency for 1 USD, as the call was priced. */
  exchange_rate: number | null;
  /** What was used, at the entry that settled it. */
  prompt_tokens: number | null;
  completion_tokens: number | null;
  cached_tokens: number | null;
}

export type Entry = Transaction & OfCall & Sides;

/** Only entries that meet all of these. */
export interface EntryFilter {
  type?: Transaction['type'] | undefined;
  /** Written at or after, and before. */
  from?: Date | undefined;
  to?: Date | undefined;
  model?: string | undefined;
  user_id?: string | undefined;
  request_id?: string | undefined;
  /** The call's X-Request-Id, by its events, which are kept 90 days. */
  trace_label?: string | undefined;
}

/** Which part: a page of the whole ledger, or what comes after a cursor. */
export interface EntriesRequest extends PageRequest {
  /**
   * The list as it was when this was its newest entry: pages then stay the same while entries are
   * written.
   */
  seq_max?: number | undefined;
  cursor?: string | undefined;
}

export interface LedgerPage {
  transactions: Entry[];
  has_more: boolean;
  /** The newest entry's seq: entries have no gaps and are never deleted. */
  total: number;
}

export type LedgerPart = Omit<Part<Entry>, 'rows'> & { transactions: Entry[] };

/**
 * A wallet's entries, newest first: a page, or, with a cursor or a filter, a part. A part looks at
 * so many entries at most, and may be short, or empty, though there is a next one. Who does not
 * bill sees whose a call is only of their own and of the teams that they lead.
 */
export async function list(
  db: Db,
  wallet_id: string,
  viewer: Viewer,
  filter: EntryFilter,
  request: EntriesRequest,
): Promise<LedgerPage | LedgerPart> {
  const { page, per_page, cursor, seq_max } = request;
  const is_filtered = Object.values(filter).some((value) => value !== undefined);
  if (cursor !== undefined || is_filtered) {
    if (page > 1)
      throw new AppError(
        'invalid_field',
        'page goes without filters and cursor: go on with the next of each answer as cursor.',
        { param: 'page' },
      );
    return partOf(db, wallet_id, viewer, filter, { ...request, cursor: cursor ?? FIRST });
  }
  const { total } = await one<{ total: number }>(
    db,
    'select least(seq, :seq_max::bigint)::float as total from wallets where id = :wallet_id',
    { wallet_id, seq_max: seq_max ?? null },
  );
  const newest = total - (page - 1) * per_page;
  const window = { newest, oldest: newest - per_page, limit: per_page };
  const transactions = await entriesIn(db, wallet_id, viewer, {}, window);
  return { transactions, has_more: newest > per_page, total };
}

/** So many entries are looked at for one part. */
const LOOKED_AT_MAX = 50_000;

async function partOf(
  db: Db,
  wallet_id: string,
  viewer: Viewer,
  filter: EntryFilter,
  { per_page, cursor, seq_max }: EntriesRequest & { cursor: string },
): Promise<LedgerPart> {
  const of = JSON.stringify(['entries', wallet_id, filter, seq_max ?? null]);
  const bounds = await one<{ low: number; high: number }>(
    db,
    `select case when :from::timestamptz is null then 0 else seq_before(id, :from, 0, seq) end::float as low,
       least(case when :to::timestamptz is null then seq else seq_before(id, :to, 0, seq) end, :seq_max::bigint)::float as high
     from wallets where id = :wallet_id`,
    { wallet_id, from: filter.from ?? null, to: filter.to ?? null, seq_max: seq_max ?? null },
  );
  const newest =
    cursor === FIRST ? bounds.high : Number((await placeIn(cursor, of, false)).list_id) - 1;
  // Somebody made a place of their own.
  if (!Number.isSafeInteger(newest)) throw foreignCursor();
  const is_indexed = filter.request_id !== undefined || filter.trace_label !== undefined;
  const oldest = is_indexed ? bounds.low : Math.max(bounds.low, newest - LOOKED_AT_MAX);
  const window = { newest, oldest, limit: per_page + 1 };
  const found = await entriesIn(db, wallet_id, viewer, filter, window);
  const transactions = found.slice(0, per_page);
  const is_full = found.length > per_page;
  const has_more = is_full || oldest > bounds.low;
  const last = is_full ? String(transactions.at(-1)?.seq) : String(oldest + 1);
  return {
    transactions,
    has_more,
    next: has_more ? await cursorOf({ list_place: null, list_id: last }, of) : null,
  };
}

const approval = `(select jsonb_build_object('cost_ticket_id', a.cost_ticket_id, 'decided_by', a.decided_by,
  'approval_rule_id', a.approval_rule_id) from approval_entries a where a.transaction_id = t.id) as approval`;

const used = (
  name: string,
) => `case when t.phase = 'late' or (t.phase = 'close' and c.status in ('settled', 'released'))
  then coalesce((c.usage ->> '${name}')::float, 0) end as ${name}`;

const ofCall = `c.request_id, c.user_id, c.team_id, c.key_id, c.agent_id, c.family, c.session_id, c.tags, c.cost_ticket_id,
  c.exchange_rate::float as exchange_rate, ${['prompt_tokens', 'completion_tokens', 'cached_tokens'].map(used).join(', ')}`;

/** The calls that a viewer sees whole. */
export const isSeen = `(:sees_all or (:viewer_id::text is not null and r.user_id = :viewer_id)
  or r.team_id in (${ledTeams('viewer_org', 'viewer_id')}))`;

/** What that condition is bound to. */
export function seenBy({ org_id, user_id, sees_all }: Viewer) {
  return { sees_all, viewer_id: user_id, viewer_org: org_id };
}

/** So many of a label's newest events are looked at, which a client may give to each call. */
const LABELLED_MAX = 10_000;

const conditions = {
  type: 't.type = :type',
  model: 't.model = :model',
  user_id: 'c.user_id = :user_id',
  request_id: `c.id is not null and t.reservation_id = any(array(select q.id from reservations q
    where q.org_id = :viewer_org and q.request_id = :request_id))`,
  trace_label: `c.id is not null and t.reservation_id = any(array(select q.id from (
      select e.org_id, e.request_id from events e where e.org_id = :viewer_org and e.trace_label = :trace_label
      order by e.id desc limit ${LABELLED_MAX}) as e
    join reservations q on q.org_id = e.org_id and q.request_id = e.request_id))`,
} as const;

const entries = `select ${columns.replaceAll(/\b\w+\b/g, 't.$&')}, ${approval}, ${sides}, ${ofCall} from wallet_transactions t
  left join lateral (select r.* from reservations r where r.id = t.reservation_id and ${isSeen} limit 1) as c on true`;

async function entriesIn(
  db: Db,
  wallet_id: string,
  viewer: Viewer,
  { from: _from, to: _to, ...filter }: EntryFilter,
  window: { newest: number; oldest: number; limit: number },
): Promise<Entry[]> {
  const named = Object.entries(filter).filter(([, value]) => value !== undefined);
  const met = named.map(([name]) => `and ${conditions[name as keyof typeof conditions]}`).join(' ');
  const found = await many<Entry>(
    db,
    `${entries}
     where t.wallet_id = :wallet_id and t.seq <= :newest and t.seq > :oldest ${met} order by t.seq desc limit :limit`,
    { wallet_id, ...seenBy(viewer), ...Object.fromEntries(named), ...window },
  );
  return found.map(shown);
}

/** An entry that is of no approval says nothing of one. */
function shown({ approval: of, ...entry }: Entry): Entry {
  return of ? { ...entry, approval: of } : entry;
}

/** The entries of one call, in their order, whichever wallet paid. */
export async function entriesOf(db: Db, reservation_id: string, viewer: Viewer): Promise<Entry[]> {
  const found = await many<Entry>(
    db,
    `${entries}
     where t.reservation_id = :reservation_id order by t.seq`,
    { reservation_id, ...seenBy(viewer) },
  );
  return found.map(shown);
}
