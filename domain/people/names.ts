import { type Db, many } from '../sql';

export const named_types = [
  'user',
  'team',
  'agent',
  'key',
  'wallet',
  'organization',
  'budget',
  'approval_rule',
  'notice_destination',
] as const;

/** What an id stands for, and how people call it: a wallet and a budget by their owner's name. */
export interface Name {
  id: string;
  type: (typeof named_types)[number];
  name: string;
}

/** Whose names somebody is shown. */
export interface NameSight {
  /** Null: those of every organization and of the platform. */
  org_id: string | null;
  user_id: string | null;
  /** Also the names of keys that are not their own, and of what members do not list. */
  sees_all: boolean;
}

const of_org = '(:org_id::text is null or n.org_id = :org_id)';
const is_seen = ':sees_all::boolean';

// Who has left, was archived or revoked keeps the name under which others knew them.
const owner_name = (user_id: string, team_id: string) =>
  `coalesce((select u.name from users u where u.id = ${user_id}), (select t.name from teams t where t.id = ${team_id}),
    (select o.name from organizations o where o.id = n.org_id))`;
const sources: Record<Name['type'], string> = {
  user: `select n.id, n.name from users n where :org_id::text is null
    or exists (select from memberships m where m.org_id = :org_id and m.user_id = n.id)`,
  team: `select n.id, n.name from teams n where ${of_org}`,
  agent: `select n.id, n.name from agents n where ${of_org}`,
  key: `select n.id, n.name from tokens n where ${of_org} and n.purpose = 'key' and (${is_seen} or n.user_id = :user_id)`,
  wallet: `select n.id, ${owner_name('n.owner_user_id', 'n.owner_team_id')} as name from wallets n where ${of_org}`,
  organization:
    'select n.id, n.name from organizations n where :org_id::text is null or n.id = :org_id',
  budget: `select n.id, coalesce((select k.name from tokens k where k.id = n.owner_id), ${owner_name('n.owner_id', 'n.owner_id')}) as name
    from budgets n where ${of_org} and ${is_seen}`,
  approval_rule: `select n.id, n.name from approval_rules n where ${of_org} and ${is_seen}`,
  notice_destination: `select n.id, n.name from notice_destinations n where ${of_org} and ${is_seen}`,
};

const statement = named_types
  .map(
    (type) =>
      `select f.id, '${type}' as type, f.name from (${sources[type]}) as f where f.id = any(:ids)`,
  )
  .join(' union all ');

/** The names of ids, of whatever kind; those without a name, and those that are not shown, lack. */
export function namesOf(db: Db, sight: NameSight, ids: readonly string[]): Promise<Name[]> {
  if (ids.length === 0) return Promise.resolve([]);
  return many<Name>(db, statement, { ...sight, ids: [...ids] });
}
