import { type ListRequest, listOf, type Part, type Search } from '../lists';
import type { Page } from '../pages';
import type { Db } from '../sql';
import { livingMembers, type Member, memberColumns } from './members';
import type { Role } from './roles';

/** Which members: all of them, or those of a team, of a role, and those whose words are found. */
export interface MemberFilter {
  q?: string | undefined;
  role?: Role | undefined;
  team_id?: string | undefined;
}

/** An organization's members, by their names or by when they joined. */
export function list(
  db: Db,
  { org_id, q, role, team_id }: MemberFilter & { org_id: string },
  request: ListRequest,
): Promise<Page<Member> | Part<Member>> {
  const conditions = [
    livingMembers,
    ...(team_id
      ? ['m.user_id in (select user_id from team_members where team_id = :team_id)']
      : []),
  ];
  return listOf(
    db,
    {
      name: 'members',
      select: memberColumns,
      from: conditions.join(' and '),
      bindings: {
        org_id,
        q: q ?? null,
        role: role ?? null,
        marks: role ? [`role ${role}`] : [],
        team_id: team_id ?? null,
      },
      search: searchOf({ q, role }),
      id: 'm.user_id',
      created_at: 'm.created_at',
      orders: {
        created_at: { by: 'm.created_at', type: 'timestamptz' },
        name: { by: 'lower(m.name)', type: 'text' },
      },
    },
    request,
  );
}

/** A search of members by words and role. */
function searchOf({ q, role }: Pick<MemberFilter, 'q' | 'role'>): Search | undefined {
  const plain = [
    ...(q ? ['has_words(array[m.name, m.email], :q)'] : []),
    ...(role ? ['m.role = :role'] : []),
  ].join(' and ');
  return plain === ''
    ? undefined
    : { found: membersFound, plain, among: `select m.user_id ${livingMembers}` };
}

/** As the index of migration 0071 knows members: the organization is one of its words. */
export const membersFound = `select m.user_id from memberships m where m.archived_at is null
  and search_words(m.org_id, array[m.name, m.email], array['role ' || m.role]) @@ search_for(:org_id, :q, :marks)`;
