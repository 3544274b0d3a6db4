import { type Db, many, maybe } from '../sql';
import type { Role } from './roles';
import type { OwnTeam } from './teams';

// Who a person is here, for the person.

export interface Profile {
  user_id: string;
  name: string;
  email: string | null;
}

export interface ProfileMembership {
  org_id: string;
  name: string;
  currency: string;
  /** Its reporting zone: an IANA name. */
  time_zone: string;
  role: Role;
  teams: OwnTeam[];
}

/** A person by id; undefined if there is none. */
export function find(db: Db, user_id: string): Promise<Profile | undefined> {
  return maybe(db, 'select id as user_id, name, email from users where id = :user_id', { user_id });
}

/**
 * The living memberships of a person with their teams, by name. A key of one organization tells of
 * that one alone; a person who came by a JWT, or by an identity provider of the whole platform,
 * sees all of theirs.
 */
export function memberships(
  db: Db,
  { user_id, org_id, key_id }: { user_id: string; org_id: string | null; key_id: string },
): Promise<ProfileMembership[]> {
  return many(
    db,
    `select o.id as org_id, o.name, o.currency, o.time_zone, m.role,
       coalesce((select jsonb_agg(jsonb_build_object('team_id', t.id, 'name', t.name, 'role', q.role) order by t.name)
         from team_members q join teams t on t.id = q.team_id
         where t.org_id = o.id and t.archived_at is null and q.user_id = m.user_id), '[]') as teams
     from memberships m join organizations o on o.id = m.org_id and o.archived_at is null
     where m.user_id = :user_id and m.archived_at is null and (m.org_id = :org_id or :key_id = :user_id
       or exists (select 1 from tokens k join identity_issuers p on p.id = k.issuer_id
         where k.id = :key_id and p.org_id is null))
     order by o.name, o.id`,
    { user_id, org_id, key_id },
  );
}

interface Membership {
  user_id: string;
  org_id: string;
  role: Role;
  /** The organization is suspended: its people are refused. */
  is_suspended: boolean;
}

/** The living memberships of the person that a JWT's issuer and subject stand for. */
export function ofIdentity(
  db: Db,
  person: { issuer: string; subject: string },
): Promise<Membership[]> {
  return many(
    db,
    `select u.id as user_id, m.org_id, m.role, o.suspended_at is not null as is_suspended
     from users u
     join memberships m on m.user_id = u.id and m.archived_at is null
     join organizations o on o.id = m.org_id and o.archived_at is null
     where u.issuer = :issuer and u.subject = :subject order by m.created_at, m.org_id`,
    person,
  );
}
