import { type Db, one } from './sql';

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

/** A query in its clauses: `all` counts the rows, without what makes and orders them. */
export interface PagedQuery {
  /** `select ...`: the columns of a row. */
  select: string;
  /** `from ... where ...`: which rows. */
  all: string;
  /** `order by ...` */
  ordered: string;
}

/**
 * One page of a query. Its rows are counted as a whole, so it belongs on lists that an organization
 * can overlook.
 */
export async function pageOf<Row>(
  db: Db,
  { select, all, ordered }: PagedQuery,
  given: Record<string, unknown>,
  { page, per_page, as_of }: PageRequest,
): Promise<Page<Row>> {
  const bindings = { ...given, as_of: as_of ?? null };
  const offset = (page - 1) * per_page;
  const result = await db.raw<{ rows: Row[] }>(
    `${select} ${all} ${ordered} limit :limit offset :offset`,
    {
      ...bindings,
      limit: per_page,
      offset,
    } as never,
  );
  const { total } = await one<{ total: number }>(
    db,
    `select count(*)::int as total ${all}`,
    bindings,
  );
  return { rows: result.rows, has_more: offset + result.rows.length < total, total };
}
