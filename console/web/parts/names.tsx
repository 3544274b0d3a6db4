import { useQuery } from '@tanstack/react-query';
import { reading } from '../api/queries';
import { useMe } from '../session/me';
import { CopyId } from './copy-id';

const LONG_MS = 300_000;

/** A person by name; their id if they are not, or no longer, of the organization. */
export function PersonName({ id }: { id: string | null }) {
  const { acting_org, user } = useMe();
  const is_person = id?.startsWith('user_') === true;
  const is_me = id !== null && id === user?.user_id;
  const { data } = useQuery({
    ...reading('GET /api/organizations/:id/members/:user_id', {
      names: { id: acting_org ?? '', user_id: id ?? '' },
    }),
    enabled: is_person && !is_me && acting_org !== null,
    staleTime: LONG_MS,
    retry: false,
  });
  if (id === null) return <span>nobody</span>;
  if (is_me) return <span>{user?.name} (you)</span>;
  if (id === 'rule') return <span>a rule</span>;
  return data ? <span>{data.name}</span> : <CopyId value={id} />;
}

/** A team by name. */
export function TeamName({ id }: { id: string }) {
  const { acting_org } = useMe();
  const { data } = useQuery({
    ...reading('GET /api/organizations/:id/teams/:team_id', {
      names: { id: acting_org ?? '', team_id: id },
    }),
    enabled: acting_org !== null,
    staleTime: LONG_MS,
    retry: false,
  });
  return data ? <span>{data.name}</span> : <CopyId value={id} />;
}
