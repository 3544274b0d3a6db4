import { type Db, one } from './sql';

/** Which part of a list: `page` counts from 1. */
export interface Window {
  page: number;
  per_page: number;
}

export interface Page<Row> {
  rows: Row[];
  has_more: boolean;
  /** All rows of the list, also where the page lies behind its end. */
  total: number;
}

/** One page of an ordered query. It is run once more to be counted, so it belongs on lists that an organization can overlook. */
export async function pageOf<Row>(
  db: Db,
  sql: string,
  bindings: Record<string, unknown>,
  { page, per_page }: Window,
): Promise<Page<Row>> {
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
