import { useNavigate, useSearch } from '@tanstack/react-router';

// Filters are the query of the page's address: they can be sent to somebody. Back returns to the
// page of the list before; what is typed into filters leaves no pages behind.

type Reader<T> = (given: unknown) => T | undefined;
type Shape = Record<string, Reader<unknown>>;
type Filters<S extends Shape> = { [name in keyof S]?: ReturnType<S[name]> };

/** A text; anything else is none. */
export const text: Reader<string> = (given) =>
  typeof given === 'string' || typeof given === 'number' ? String(given) : undefined;

/** One of these words; anything else is none. */
export function oneOf<const T extends string>(...words: readonly T[]): Reader<T> {
  return (given) => words.find((word) => word === given);
}

/**
 * The filters of a screen, read from its address as `shape` says, and how to change them. A change
 * begins at the first page again, unless it is of the page.
 */
export function useFilters<S extends Shape>(
  shape: S,
): [Filters<S>, (change: Partial<Filters<S>>) => void] {
  const search = useSearch({ strict: false }) as Record<string, unknown>;
  const navigate = useNavigate();
  const filters = Object.fromEntries(
    Object.entries(shape)
      .map(([name, read]) => [name, read(search[name])])
      .filter(([, value]) => value !== undefined && value !== ''),
  ) as Filters<S>;
  const set = (change: Partial<Filters<S>>) => {
    const first_page = 'cursor' in shape && !('cursor' in change) ? { cursor: undefined } : {};
    const next = { ...filters, ...first_page, ...change };
    const kept = Object.entries(next).filter(([, value]) => value !== undefined && value !== '');
    void navigate({
      to: '.',
      search: Object.fromEntries(kept) as never,
      replace: !('cursor' in change),
    });
  };
  return [filters, set];
}
