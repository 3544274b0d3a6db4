import { shortId } from '../parts/copy-id';
import { useNamesOf } from '../parts/names';
import { familyWords } from '../requests/family-words';
import { type Dimension, dimensions } from './dimensions';

const named: readonly Dimension[] = ['user', 'team', 'agent', 'key'];

/**
 * How the groups of a dimension are called: people, teams, agents and keys by their names. What has
 * no name is called by its id, and kinds of calls by words.
 */
export function useNames(by: Dimension, ids: readonly (string | null)[]) {
  const is_named = named.includes(by);
  const known = useNamesOf(is_named ? ids.filter((id) => id !== null) : []);
  return (id: string | null): string => {
    if (id === null) return dimensions[by].none;
    if (by === 'family') return familyWords(id);
    return known.get(id) ?? (is_named ? shortId(id) : id);
  };
}
