import { sha256 } from './digest';
import { AppError } from './errors';
import { isMadeBefore, type Page, type PageRequest, pageOf } from './pages';
import { type Db, many, one } from './sql';

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

/** The same question twice: as an index finds its rows, and as a row is looked at. */
export interface Search {
  /**
   * `select <id> from ... where ...`: what an index of words finds. It names no condition that an
   * index of another kind answers: without statistics that one is taken for cheaper, and the words
   * of each row are made anew.
   */
  found: string;
  /**
   * The column of such an id, if the list's own is joined to it: the list is read from the table
   * that is searched, as a second condition of each joined row costs more than the row.
   */
  id?: string;
  /** A condition of the list's rows. */
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
  /** Undefined: that of their making alone, which their ids keep. */
  orders?: Record<string, Order>;
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
  const { cursor, page } = request;
  if (cursor === undefined) {
    const { from, bindings } = await foundIn(db, listing);
    const { all, ordered } = clausesOf(listing, request, from);
    return pageOf<Row>(db, { select: listing.select, all, ordered }, bindings, request);
  }
  if (page > 1)
    throw new AppError('invalid_field', 'page goes without a cursor: give one of the two.', {
      param: 'page',
    });
  return partOf<Row>(db, listing, { ...request, cursor });
}

/** The rows and their order, as clauses of a statement. */
function clausesOf(
  { created_at, id, orders = {} }: Listing,
  { sort }: Pick<ListRequest, 'sort'>,
  from: string,
) {
  const order = orders[sort.replace(/^-/, '')];
  const direction = sort.startsWith('-') ? 'desc' : 'asc';
  return {
    all: `${from} and ${isMadeBefore(created_at)}`,
    ordered: `order by ${order ? `${order.by} ${direction}, ` : ''}${id} ${direction}`,
    order,
    sign: direction === 'desc' ? '<' : '>',
  };
}

/** Of a search that finds more, the list is read in its order until enough are found. */
const FEW = 5_000;

/** Among so few, each is looked at: an index of words reads those of all organizations. */
const SMALL = 1_000;

/** Which rows: `from ... where ...`, and its bindings. */
type Rows = Pick<Listing, 'from' | 'bindings'>;

/**
 * The rows of a list, as far as its search finds them: by the way that costs less. What is counted
 * and found decides, never what PostgreSQL takes it for: rows that were just made by the thousand
 * have no statistics. So the ids that are found go into the next statement as they are.
 */
async function foundIn(db: Db, { from, bindings, id, search }: Listing): Promise<Rows> {
  if (search === undefined) return { from, bindings };
  const looked_at = { from: `${from} and ${search.plain}`, bindings };
  const { count } = await one<{ count: number }>(
    db,
    `select count(*)::int as count from (${search.among} limit :few) as f`,
    { ...bindings, few: SMALL + 1 },
  );
  if (count <= SMALL) return looked_at;
  const found = await many<{ id: string }>(
    db,
    `select f.id from (${search.found}) as f (id) limit :few`,
    { ...bindings, few: FEW + 1 },
  );
  if (found.length > FEW) return looked_at;
  return {
    from: `${from} and ${search.id ?? id} = any(:found_ids)`,
    bindings: { ...bindings, found_ids: found.map((row) => row.id) },
  };
}

/** A row's place in the order. */
export interface Placed {
  list_place: string | null;
  list_id: string;
}

/** So many rows of a list are looked at before an index is asked what a search finds. */
const HEAD = 500;

async function partOf<Row>(
  db: Db,
  listing: Listing,
  request: ListRequest & { cursor: string },
): Promise<Part<Row>> {
  const { name, bindings, from, search } = listing;
  const of = JSON.stringify([name, request.sort, bindings, request.as_of ?? null]);
  const is_ordered = listing.orders?.[request.sort.replace(/^-/, '')] !== undefined;
  const after =
    request.cursor === FIRST ? undefined : await placeIn(request.cursor, of, is_ordered);
  const read = (rows: Rows, within?: number) =>
    rowsAfter<Row>(db, listing, { ...request, rows, after, within });
  // Most searches find enough in what is shown first anyway.
  let found = search && (await read({ from: `${from} and ${search.plain}`, bindings }, HEAD));
  if (found === undefined || found.length <= request.per_page)
    found = await read(await foundIn(db, listing));
  const rows = found.slice(0, request.per_page);
  const last = found.length > request.per_page ? rows.at(-1) : undefined;
  return {
    rows: rows.map(({ list_place: _, list_id: __, ...row }) => row as Row),
    has_more: last !== undefined,
    next: last ? await cursorOf(last, of) : null,
  };
}

interface Wanted extends ListRequest {
  rows: Rows;
  after: Placed | undefined;
  /** Among so many that come next, found or not; undefined: among all. */
  within: number | undefined;
}

/** The rows after a place, one more than are wanted: that one says whether there is a next part. */
async function rowsAfter<Row>(
  db: Db,
  listing: Listing,
  { rows, after, within, as_of, per_page, sort }: Wanted,
): Promise<(Row & Placed)[]> {
  const { select, id, from, search } = listing;
  const { all, ordered, order, sign } = clausesOf(listing, { sort }, rows.from);
  const follows = order
    ? `(${order.by}, ${id}) ${sign} (:after_place::${order.type}, :after_id)`
    : `${id} ${sign} :after_id`;
  const next = after ? ` and ${follows}` : '';
  const head = clausesOf(listing, { sort }, from).all;
  const among =
    within === undefined
      ? ''
      : ` and ${search?.id ?? id} = any(array(select ${id} ${head}${next} ${ordered} limit :within))`;
  return many<Row & Placed>(
    db,
    `${select}, (${order?.by ?? 'null'})::text as list_place, ${id} as list_id ${all}${among}${next} ${ordered} limit :limit`,
    {
      ...rows.bindings,
      as_of: as_of ?? null,
      limit: per_page + 1,
      within: within ?? null,
      after_place: after?.list_place ?? null,
      after_id: after?.list_id ?? null,
    },
  ).catch((error: unknown) => {
    throw after && isUnreadable(error) ? foreignCursor() : error;
  });
}

const CHECK_CHARACTERS = 24;

// A cursor is a place in one list. Who changes it reaches nothing that the list does not show: the
// check keeps a cursor from being taken for a place in another list.

/** The cursor of a place in the list that `of` tells from all others. */
export async function cursorOf({ list_place, list_id }: Placed, of: string): Promise<string> {
  const place = Buffer.from(JSON.stringify([list_place, list_id])).toString('base64url');
  return `${place}.${await checkOf(place, of)}`;
}

async function checkOf(place: string, of: string): Promise<string> {
  return (await sha256(`${place} ${of}`)).slice(0, CHECK_CHARACTERS);
}

/** The place that a cursor names. Throws 422 for one that is not of this list or its order. */
export async function placeIn(cursor: string, of: string, is_ordered: boolean): Promise<Placed> {
  const [place = '', check] = cursor.split('.');
  if (check !== (await checkOf(place, of))) throw foreignCursor();
  const [list_place, list_id] = membersOf(Buffer.from(place, 'base64url').toString());
  const is_place = is_ordered ? typeof list_place === 'string' : list_place === null;
  if (typeof list_id !== 'string' || !is_place) throw foreignCursor();
  return { list_place: list_place as string | null, list_id };
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
  return /^22(007|008|009|021|023|P02)$/.test((error as { code?: string }).code ?? '');
}

/** The refusal (422) of a cursor that is not of this list. */
export function foreignCursor(): AppError {
  return new AppError(
    'invalid_field',
    `cursor is none of this list with this order and these filters. Begin with cursor=${FIRST}, and go on with the next of each answer.`,
    { param: 'cursor' },
  );
}
