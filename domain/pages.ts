import { sha256 } from './digest';
import { AppError } from './errors';
import { type Db, many, one } from './sql';

/** Which part of a list: `page` counts from 1. */
export interface PageRequest {
  page: number;
  per_page: number;
  /** Leaves out rows made later: pages of one instant do not shift while rows are added. */
  as_of?: Date | undefined;
}

export interface Page<Row> {
  rows: Row[];
  has_more: boolean;
  /** The count of all rows of the list, even if the page lies behind its end. */
  total: number;
}

/**
 * A condition of every paged query: its rows were made at the window's `as_of` or before, by the
 * milliseconds that are shown. A column counts microseconds, so the row of that very time is in.
 */
export function isMadeBefore(created_at: string): string {
  return `(:as_of::timestamptz is null or ${created_at} < :as_of::timestamptz + interval '1 millisecond')`;
}

/**
 * One page of an ordered query. It is run once more to be counted, so it belongs on lists that an
 * organization can overlook.
 */
export async function pageOf<Row>(
  db: Db,
  sql: string,
  given: Record<string, unknown>,
  { page, per_page, as_of }: PageRequest,
): Promise<Page<Row>> {
  const bindings = { ...given, as_of: as_of ?? null };
  const offset = (page - 1) * per_page;
  const result = await db.raw<{ rows: Row[] }>(`${sql} limit :limit offset :offset`, {
    ...bindings,
    limit: per_page,
    offset,
  } as never);
  const { total } = await one<{ total: number }>(
    db,
    `select count(*)::int as total from (${sql}) as counted`,
    bindings,
  );
  return { rows: result.rows, has_more: offset + result.rows.length < total, total };
}

/** In place of a cursor: the list from its beginning, in parts that follow each other. */
export const FIRST = 'first';

/** Which part of a list: a page with the count of the whole, or what comes after a cursor. */
export interface ListRequest extends PageRequest {
  /** `first`, or the `next` of the part before it. Undefined: the page. */
  cursor?: string | undefined;
  /** The name of an order; with a minus in front it runs backwards. */
  sort: string;
}

/** What follows a cursor. Nothing is counted, so it costs the same anywhere in the list. */
export interface Part<Row> {
  rows: Row[];
  has_more: boolean;
  /** The cursor of the next part; null at the end. */
  next: string | null;
}

/** An order: an expression that is never null, and its type. Without one it is by the id. */
export type Order = { by: string; type: 'text' | 'timestamptz' } | undefined;

/** The same condition twice: as an index finds its rows, and as a row is looked at. */
export interface Search {
  indexed: string;
  plain: string;
  /** `select <id> from ... where ...`: all rows among which is searched. */
  among: string;
}

/** A list that is read by pages and by cursors. */
export interface Listing {
  /** Tells its cursors from those of other lists. */
  name: string;
  /** `select ...`: the columns of a row. */
  select: string;
  /** `from ... where ...`: which rows, without their order. */
  from: string;
  bindings: Record<string, unknown>;
  search?: Search | undefined;
  /** The column that tells its rows apart, which settles every order. */
  id: string;
  /** The column for `as_of`. */
  created_at: string;
  orders: Record<string, Order>;
}

/**
 * A part of a list: by its cursor, or else a page with the count of the whole. Throws 422 for a
 * cursor that is not of this very list, order and search, and for a page beside a cursor.
 */
export async function listOf<Row>(
  db: Db,
  listing: Listing,
  request: ListRequest,
): Promise<Page<Row> | Part<Row>> {
  const { cursor, sort, page } = request;
  const { select, created_at, id, orders, bindings } = listing;
  const order = orders[sort.replace(/^-/, '')];
  const direction = sort.startsWith('-') ? 'desc' : 'asc';
  const all = `${await foundIn(db, listing)} and ${isMadeBefore(created_at)}`;
  const ordered = `order by ${order ? `${order.by} ${direction}, ` : ''}${id} ${direction}`;
  if (cursor === undefined)
    return pageOf<Row>(db, `${select} ${all} ${ordered}`, bindings, request);
  if (page > 1)
    throw new AppError('invalid_field', 'page goes without a cursor: give one of the two.', {
      param: 'page',
    });
  return partOf<Row>(db, listing, { ...request, cursor, order, direction, all, ordered });
}

/** Of a search that finds more, the list is read in its order until enough are found. */
const FEW = 5_000;

/** The rows of a list, as far as its search finds them: by the way that costs less. */
async function foundIn(db: Db, { from, bindings, id, search }: Listing): Promise<string> {
  if (search === undefined) return from;
  const { indexed, plain, among } = search;
  const found = `${among} and ${indexed}`;
  const { count } = await one<{ count: number }>(
    db,
    `select count(*)::int as count from (${found} limit :few) as f`,
    { ...bindings, few: FEW + 1 },
  );
  if (count > FEW) return `${from} and ${plain}`;
  // By itself, so that nothing of it is taken for cheap enough to look at every row.
  return `${from} and ${id} in (select * from (${found} offset 0) as f)`;
}

interface Wanted extends ListRequest {
  cursor: string;
  order: Order;
  direction: 'asc' | 'desc';
  all: string;
  ordered: string;
}

/** A row with its place in the order. */
interface Placed {
  list_place: string | null;
  list_id: string;
}

async function partOf<Row>(
  db: Db,
  { name, select, id, bindings }: Listing,
  { cursor, sort, per_page, as_of, order, direction, all, ordered }: Wanted,
): Promise<Part<Row>> {
  const of = JSON.stringify([name, sort, bindings, as_of ?? null]);
  const after = cursor === FIRST ? undefined : await placeIn(cursor, of);
  const sign = direction === 'desc' ? '<' : '>';
  const place = order?.by ?? 'null';
  const follows = order
    ? `(${order.by}, ${id}) ${sign} (:after_place::${order.type}, :after_id)`
    : `${id} ${sign} :after_id`;
  const found = await many<Row & Placed>(
    db,
    `${select}, (${place})::text as list_place, ${id} as list_id ${all}${after ? ` and ${follows}` : ''} ${ordered} limit :limit`,
    {
      ...bindings,
      as_of: as_of ?? null,
      // One more says whether there is a next part.
      limit: per_page + 1,
      after_place: after?.list_place ?? null,
      after_id: after?.list_id ?? null,
    },
  ).catch((error: unknown) => {
    throw after && isUnreadable(error) ? foreignCursor() : error;
  });
  const rows = found.slice(0, per_page);
  const last = found.length > per_page ? rows.at(-1) : undefined;
  return {
    rows: rows.map(({ list_place: _, list_id: __, ...row }) => row as Row),
    has_more: last !== undefined,
    next: last ? await cursorOf(last, of) : null,
  };
}

const CHECK_CHARACTERS = 24;

// A cursor is a place in one list. Who changes it reaches nothing that the list does not show: the
// check keeps a cursor from being taken for a place in another list.
async function cursorOf({ list_place, list_id }: Placed, of: string): Promise<string> {
  const place = Buffer.from(JSON.stringify([list_place, list_id])).toString('base64url');
  return `${place}.${await checkOf(place, of)}`;
}

async function checkOf(place: string, of: string): Promise<string> {
  return (await sha256(`${place} ${of}`)).slice(0, CHECK_CHARACTERS);
}

async function placeIn(cursor: string, of: string): Promise<Placed> {
  const [place = '', check] = cursor.split('.');
  if (check !== (await checkOf(place, of))) throw foreignCursor();
  const [list_place, list_id] = membersOf(Buffer.from(place, 'base64url').toString());
  if (typeof list_id !== 'string' || !(list_place === null || typeof list_place === 'string'))
    throw foreignCursor();
  return { list_place, list_id };
}

function membersOf(text: string): unknown[] {
  try {
    const members: unknown = JSON.parse(text);
    return Array.isArray(members) ? members : [];
  } catch {
    return [];
  }
}

// A time or text as PostgreSQL never wrote it: somebody made a place of their own.
function isUnreadable(error: unknown): boolean {
  return /^22(007|008|009|021)$/.test((error as { code?: string }).code ?? '');
}

function foreignCursor(): AppError {
  return new AppError(
    'invalid_field',
    `cursor is none of this list with this order and these filters. Begin with cursor=${FIRST}, and go on with the next of each answer.`,
    { param: 'cursor' },
  );
}
