import { useQuery } from '@tanstack/react-query';
import { reading } from '../api/queries';
import { may, useMe } from '../session/me';
import { CopyId } from './copy-id';

const LONG_MS = 300_000;

/**
 * A person by name; their id if they are not, or no longer, of the organization: the one that is
 * looked at, if none is named.
 */
export function PersonName({ id, org_id }: { id: string | null; org_id?: string | undefined }) {
  const { acting_org, user } = useMe();
  const org = org_id ?? acting_org;
  const is_person = id?.startsWith('user_') === true;
  const is_me = id !== null && id === user?.user_id;
  const { data } = useQuery({
    ...reading('GET /api/organizations/:id/members/:user_id', {
      names: { id: org ?? '', user_id: id ?? '' },
    }),
    enabled: is_person && !is_me && org !== null,
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

/** An agent by name. */
export function AgentName({ id }: { id: string }) {
  const { acting_org } = useMe();
  const { data } = useQuery({
    ...reading('GET /api/organizations/:id/agents/:agent_id', {
      names: { id: acting_org ?? '', agent_id: id },
    }),
    enabled: acting_org !== null,
    staleTime: LONG_MS,
    retry: false,
  });
  return data ? <span>{data.name}</span> : <CopyId value={id} />;
}

/** A key by name, as far as the viewer may list keys; keys have no address by their id. */
export function KeyName({ id }: { id: string }) {
  const name = useKeyNames(true)(id);
  return name === undefined ? <CopyId value={id} /> : <span>{name}</span>;
}

/** How gateway keys are called, as far as the viewer may list them: the newest 200. */
export function useKeyNames(is_wanted: boolean): (id: string) => string | undefined {
  const me = useMe();
  const lists = may(me, 'tokens:write');
  const page = { cursor: 'first', per_page: 200 } as const;
  const { data: all } = useQuery({
    ...reading('GET /api/keys', { query: { type: 'gateway', ...page } }),
    enabled: is_wanted && lists,
    staleTime: LONG_MS,
  });
  const { data: own } = useQuery({
    ...reading('GET /api/my-keys', { query: page }),
    enabled: is_wanted && !lists && me.user !== null,
    staleTime: LONG_MS,
  });
  return (id) => (all ?? own)?.tokens.find((key) => key.id === id)?.name;
}

/** An organization by name, for operators, who see several. */
export function OrgName({ id }: { id: string | null }) {
  const { data } = useQuery({
    ...reading('GET /api/organizations/:id', { names: { id: id ?? '' } }),
    enabled: id !== null,
    staleTime: LONG_MS,
    retry: false,
  });
  if (id === null) return <span>all</span>;
  return data ? <span>{data.name}</span> : <CopyId value={id} />;
}
