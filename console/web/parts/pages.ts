import { serverNow } from '../base/clock';

// Some lists of the API have page numbers and no cursors. Their place in the address is
// `2~2026-11-30T17:00:00.000Z`: the page, and as of when, so that pages do not shift while rows are
// added.

/** The first page as of now: what is added later is on none of the pages that follow it. */
export function firstPlace(): string {
  return `1~${new Date(serverNow()).toISOString()}`;
}

/** What of a place such a list is asked for. */
export function pageAt(cursor: string | undefined): { page: number; as_of?: string } {
  const [page, as_of] = (cursor ?? '').split('~');
  return as_of === undefined || !/^\d{1,6}$/.test(page ?? '')
    ? { page: 1 }
    : { page: Number(page), as_of };
}

/** Its answer with the place of the next page, as tables read it. */
export function withNext<Data extends { has_more: boolean }>(cursor: string | undefined) {
  const { page, as_of = new Date(serverNow()).toISOString() } = pageAt(cursor);
  return (data: Data): Data & { next: string | null } => ({
    ...data,
    next: data.has_more ? `${page + 1}~${as_of}` : null,
  });
}
