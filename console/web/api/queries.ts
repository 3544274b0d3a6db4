import { QueryClient, queryOptions } from '@tanstack/react-query';
import { type Answer, call, type Given, Refusal, type Route } from './client';

/** The one store of what was read. A refusal is an answer, so only what passes is tried again. */
export const queries = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 10_000,
      refetchOnWindowFocus: true,
      retry: (count, error) => {
        const passes = error instanceof Refusal && [0, 429, 502, 503].includes(error.status);
        return passes && count < 3;
      },
      retryDelay: (count, error) => {
        const named = error instanceof Refusal ? error.retry_after_s : null;
        return named === null ? 500 * 2 ** count : Math.min(named, 10) * 1_000;
      },
    },
    mutations: { retry: false },
  },
});

/**
 * While other filters are read, what was read before stays on screen, marked as old; but nothing of
 * another person, wallet or organization does.
 */
function keptOf(names: unknown) {
  const wanted = JSON.stringify(names ?? {});
  return (before: unknown, query?: { queryKey: readonly unknown[] }) =>
    JSON.stringify(query?.queryKey[1]) === wanted ? before : undefined;
}

/**
 * What a screen reads: `useQuery(reading('GET /api/wallets', { query }))`. Its key begins with the
 * route, so `refresh('/api/wallets')` reads all of its kind anew.
 */
export function reading<R extends Route>(route: R, given: Given<R> = {}) {
  return queryOptions<Answer<R>>({
    queryKey: [route.slice(route.indexOf(' ') + 1), given.names ?? {}, given.query ?? {}],
    queryFn: ({ signal }) => call(route, { ...given, signal }),
    placeholderData: keptOf(given.names) as never,
  });
}

/** Reads anew what is shown of these paths: `/api/tickets` stands for all that begin with it. */
export function refresh(...paths: string[]): Promise<void> {
  return queries.invalidateQueries({
    predicate: ({ queryKey: [path] }) =>
      paths.some((begin) => typeof path === 'string' && path.startsWith(begin)),
  });
}

/** Leaves what is shown of a path as it is: what is being read anew does not take its place. */
export function leave(path: string): void {
  void queries.cancelQueries({
    predicate: ({ queryKey, state }) => queryKey[0] === path && state.data !== undefined,
  });
}
