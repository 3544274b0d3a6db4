import { Group } from '@mantine/core';
import { queryOptions, useQueries, useQuery } from '@tanstack/react-query';
import { nameOf } from '../api/names';
import { useMe } from '../session/me';
import { CopyId } from './copy-id';

const LONG_MS = 300_000;

/** What `refresh` is told when something was given another name. */
export const NAMES = '/api/names';

const nameQuery = (id: string) =>
  queryOptions({ queryKey: [NAMES, id], queryFn: () => nameOf(id), staleTime: LONG_MS });

/** Anything by its name; by its id if it has none, or none that the viewer may see. */
export function Name({ id }: { id: string }) {
  const { data } = useQuery(nameQuery(id));
  return typeof data === 'string' ? <span className="wrap">{data}</span> : <CopyId value={id} />;
}

/** A person by name, also one who has left. */
export function PersonName({ id }: { id: string | null }) {
  const { user } = useMe();
  if (id === null) return <span>none</span>;
  if (id === user?.user_id) return <span>{user.name} (you)</span>;
  if (id.startsWith('key_')) return <KeyName id={id} />;
  return id === 'rule' ? <span>a rule</span> : <Name id={id} />;
}

const readers = ['tokens:write', 'org:members', 'org:billing'] as const;

/**
 * What a key did that stands for nobody. Whoever sees the names of all keys of the organization
 * sees that one without a name is none of them: it is the platform's, which an operator has.
 */
function KeyName({ id }: { id: string }) {
  const me = useMe();
  const { data, isPending } = useQuery(nameQuery(id));
  if (typeof data === 'string') return <span className="wrap">{data}</span>;
  if (isPending) return null;
  // Nobody could say.
  if (data === undefined) return <CopyId value={id} />;
  const is_operator = me.is_operator || readers.some((right) => me.permissions.includes(right));
  return (
    <Group gap={4} component="span" display="inline-flex">
      {is_operator ? 'an operator' : 'a key or an operator'}
      <CopyId value={id} />
    </Group>
  );
}

/** An organization by name, for operators, who see several. */
export function OrgName({ id }: { id: string | null }) {
  return id === null ? <span>all</span> : <Name id={id} />;
}

/** The names of several, by id, as they come. */
export function useNamesOf(ids: readonly string[]): ReadonlyMap<string, string> {
  return useQueries({
    queries: [...new Set(ids)].map((id) => nameQuery(id)),
    combine: (found) => {
      const distinct = [...new Set(ids)];
      return new Map(
        found.flatMap(({ data }, place) => {
          const id = distinct[place];
          return id !== undefined && typeof data === 'string' ? [[id, data] as const] : [];
        }),
      );
    },
  });
}
