import { Alert, List, Text } from '@mantine/core';
import { useQueries } from '@tanstack/react-query';
import { reading } from '../api/queries';
import { Failure, LoadingRows } from '../parts/states';
import { may, useMe } from '../session/me';

const SHOWN = 50;

/**
 * Whose keys end: all of a team or an agent, a person's own for a team, or all of a person and
 * those that the person made.
 */
export type KeysOf =
  | { team_id: string; user_id?: string }
  | { agent_id: string }
  | { user_id: string; with_made: true };

/**
 * The keys that end with a team, an agent or a person, before anybody presses. They are read with
 * the right to manage keys; without it only a sentence says that keys end.
 */
export function DoomedKeys({ of }: { of: KeysOf }) {
  const me = useMe();
  const is_seen = may(me, 'tokens:write');
  const asked = { status: 'active', per_page: SHOWN, cursor: 'first' } as const;
  const filters = 'with_made' in of ? [{ user_id: of.user_id }, { created_by: of.user_id }] : [of];
  const found = useQueries({
    queries: filters.map((filter) => ({
      ...reading('GET /api/keys', { query: { ...asked, ...filter } }),
      enabled: is_seen,
      staleTime: 0,
    })),
  });
  if (!is_seen)
    return <Text>Their keys are revoked at once. You may not see which keys these are.</Text>;
  const failed = found.find(({ error }) => error);
  if (failed) return <Failure error={failed.error} retry={() => void failed.refetch()} />;
  if (found.some(({ data }) => data === undefined)) return <LoadingRows />;
  const keys = new Map(
    found.flatMap(({ data }) => (data?.tokens ?? []).map((key) => [key.id, key] as const)),
  );
  const has_more = found.some(({ data }) => data?.has_more);
  if (keys.size === 0) return <Text>No active key will be revoked.</Text>;
  const count = has_more ? `More than ${keys.size} keys will be revoked` : endWords(keys.size);
  return (
    <Alert color="red" title={`${count} at once`}>
      <Text size="sm">Programs that use them will be refused.</Text>
      <List size="sm" aria-label="Keys to be revoked">
        {[...keys.values()].map(({ id, name, prefix }) => (
          <List.Item key={id} className="wrap">
            {name} <code>{prefix}…</code>
          </List.Item>
        ))}
      </List>
    </Alert>
  );
}

function endWords(count: number): string {
  return count === 1 ? '1 key will be revoked' : `${count} keys will be revoked`;
}
