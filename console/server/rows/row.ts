/** One route of the console's server, and the API's route that it stands for. */
export interface Row {
  method: 'get' | 'post' | 'put' | 'patch' | 'delete';
  /** `/api/tickets/:id/approve` */
  path: string;
  /** `/v1/cost-tickets/:id/approve`: of the same names. */
  to: string;
  /** The API's route takes `org_id`, which an operator's session adds. */
  has_org: boolean;
  /** What the answer is: JSON, a stream of events, or a file that the browser keeps. */
  answers: 'json' | 'events' | 'file';
  /** Members that the server writes over whatever the browser sent; null takes one out. */
  forced: Readonly<Record<string, string | readonly string[] | null>>;
  /** The form that the API is asked for, where a link of a page cannot say so. */
  accept?: 'text/csv';
  /** The page of the console with a file's link, of the same names: `/exports/:id`. */
  page?: string;
}

type Optional = 'has_org' | 'answers' | 'forced' | 'accept' | 'page';

/**
 * A row: `row('get', '/api/tickets', '/v1/cost-tickets', { has_org: true })`.
 * There are no wildcards: what has no row is not forwarded.
 */
export function row(
  method: Row['method'],
  path: string,
  to: string,
  more: Partial<Pick<Row, Optional>> = {},
): Row {
  return { method, path, to, has_org: false, answers: 'json', forced: {}, ...more };
}
