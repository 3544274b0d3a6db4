import { useQueries } from '@tanstack/react-query';
import { reading } from '../api/queries';
import { shortId } from '../parts/copy-id';
import { useKeyNames } from '../parts/names';
import { useMe } from '../session/me';
import { type Dimension, dimensions } from './dimensions';

const LONG_MS = 300_000;

/**
 * How the groups of a dimension are called: people, teams and agents by their names, keys by theirs
 * as far as the viewer may list them. What has no name is called by its id.
 */
export function useNames(by: Dimension, ids: readonly (string | null)[]) {
  const { acting_org } = useMe();
  const org = acting_org ?? '';
  const is_named = by === 'user' || by === 'team' || by === 'agent';
  const known = useQueries({
    queries: (is_named ? ids.filter((id) => id !== null) : []).map((id) => ({
      ...nameQuery(by as 'user', org, id),
      staleTime: LONG_MS,
      retry: false,
      enabled: acting_org !== null,
    })),
    combine: (found) => new Map(found.flatMap(({ data }) => (data ? [data] : []))),
  });
  const keyName = useKeyNames(by === 'key');
  return (id: string | null): string => {
    if (id === null) return dimensions[by].none;
    const name = by === 'key' ? keyName(id) : known.get(id);
    if (name !== undefined) return name;
    return is_named || by === 'key' ? shortId(id) : id;
  };
}

type Named = 'user' | 'team' | 'agent';

/** Reads the id and the name of one. */
function nameQuery(by: Named, org: string, id: string) {
  const select = ({ name }: { name: string }) => [id, name] as const;
  if (by === 'user') {
    const names = { id: org, user_id: id };
    return { ...reading('GET /api/organizations/:id/members/:user_id', { names }), select };
  }
  if (by === 'team') {
    const names = { id: org, team_id: id };
    return { ...reading('GET /api/organizations/:id/teams/:team_id', { names }), select };
  }
  const names = { id: org, agent_id: id };
  return { ...reading('GET /api/organizations/:id/agents/:agent_id', { names }), select };
}
