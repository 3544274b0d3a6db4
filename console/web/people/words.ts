import type { Answer } from '../api/client';

export type Member = Extract<
  Answer<'GET /api/organizations/:id/members'>,
  { next: unknown }
>['members'][number];
export type Team = Extract<
  Answer<'GET /api/organizations/:id/teams'>,
  { next: unknown }
>['teams'][number];
export type Role = Member['role'];

/** What is read of teams, to read it anew. */
export const TEAMS = '/api/organizations/:id/teams';

/** What each role may do, in a few words. */
export const roles: readonly { value: Role; label: string; about: string }[] = [
  { value: 'member', label: 'member', about: 'makes calls, sees what is their own' },
  { value: 'billing_admin', label: 'billing admin', about: 'pays, credits and decides tickets' },
  { value: 'admin', label: 'admin', about: 'people, keys, agents and events' },
  { value: 'owner', label: 'owner', about: 'everything in the organization' },
];

/** `billing admin` */
export function roleWords(role: Role): string {
  return roles.find(({ value }) => value === role)?.label ?? role;
}
