import { queryOptions, useQuery } from '@tanstack/react-query';
import { createContext, useContext } from 'react';
import { type Answer, call, send } from '../api/client';
import { reading } from '../api/queries';
import { isKnownZone } from '../base/days';

/** What the cookie says of the session. */
export interface SessionState {
  is_signed_in: boolean;
  is_operator?: boolean;
  org_id?: string | null;
  expires_at?: string;
}

export interface Me extends Answer<'GET /api/me'> {
  is_operator: boolean;
  /** The organization that is looked at; null: an operator has chosen none. */
  acting_org: string | null;
}

export const sessionQuery = queryOptions({
  queryKey: ['/api/session'],
  queryFn: ({ signal }) => send('GET', '/api/session', { signal }) as Promise<SessionState>,
  staleTime: 60_000,
});

export const meQuery = queryOptions({
  queryKey: ['/api/me'],
  queryFn: async ({ signal }): Promise<Me> => {
    const [session, me] = await Promise.all([
      send('GET', '/api/session', { signal }) as Promise<SessionState>,
      call('GET /api/me', { signal }),
    ]);
    const is_operator = session.is_operator === true;
    return { ...me, is_operator, acting_org: is_operator ? (session.org_id ?? null) : me.org_id };
  },
  staleTime: 60_000,
});

/** Who uses the console. The shell shows screens only once this is known. */
export function useMe(): Me {
  const { data } = useQuery(meQuery);
  if (data === undefined) throw new Error('A screen was shown before anybody was known.');
  return data;
}

type Permission = Me['permissions'][number];

/** True if the person, or an operator, may do this. */
export function may(me: Me, permission: Permission): boolean {
  return me.permissions.includes('platform:admin') || me.permissions.includes(permission);
}

/** The teams of which the person is an admin. */
export function ledTeams(me: Me): string[] {
  const here = me.memberships.find(({ org_id }) => org_id === me.org_id);
  return (here?.teams ?? []).filter(({ role }) => role === 'admin').map(({ team_id }) => team_id);
}

/** True for whoever decides about tickets: of all the organization, or of a team. */
export function decidesTickets(me: Me): boolean {
  return may(me, 'org:billing') || ledTeams(me).length > 0;
}

/** Stands for the currency while it is not known: ISO 4217 says "no currency" by it. */
const NO_CURRENCY = 'XXX';

/**
 * The currency of the organization that is looked at. Its members are told with who they are; an
 * operator, who is no member, asks for it.
 */
export function useCurrency(): string {
  const { acting_org, memberships } = useMe();
  const own = memberships.find(({ org_id }) => org_id === acting_org)?.currency;
  const { data } = useQuery({
    ...reading('GET /api/organizations/:id', { names: { id: acting_org ?? '' } }),
    enabled: acting_org !== null && own === undefined,
    staleTime: 300_000,
  });
  return own ?? data?.currency ?? NO_CURRENCY;
}

/**
 * The zone in which times are shown: that in which the organization reports, or UTC if this browser
 * does not know it.
 */
export function useZone(): string {
  const zone = useReportingZone();
  return isKnownZone(zone) ? zone : 'UTC';
}

/** Whose the page is that an operator opened by its address, if not of where they act. */
export const PageOrg = createContext<string | null>(null);

/**
 * The zone in which the organization reports. Its members are told with who they are; an operator,
 * who is no member, asks for it, and has UTC until it is known.
 */
export function useReportingZone(): string {
  const me = useMe();
  const { memberships } = me;
  const acting_org = useContext(PageOrg) ?? me.acting_org;
  const own = memberships.find(({ org_id }) => org_id === acting_org)?.time_zone;
  const { data } = useQuery({
    ...reading('GET /api/wallet-settings/:id', { names: { id: acting_org ?? '' } }),
    enabled: acting_org !== null && own === undefined && may(me, 'org:billing'),
    staleTime: 300_000,
  });
  return own ?? data?.time_zone ?? 'UTC';
}
