import type { UseQueryResult } from '@tanstack/react-query';
import type { Parts } from './data-table';

/**
 * A list for a DataTable whose answer says otherwise, or not at all, how it goes on: without
 * `nextOf` it comes whole.
 */
export function listed<Data extends object>(
  query: UseQueryResult<Data>,
  nextOf: (data: Data) => string | null = () => null,
): UseQueryResult<Data & Parts> {
  const { data } = query;
  const next = data ? nextOf(data) : null;
  const parts = data && { ...data, next, has_more: next !== null };
  return { ...query, data: parts } as UseQueryResult<Data & Parts>;
}
