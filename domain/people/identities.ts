import { type Db, many, one } from '../sql';

/** A subject of an identity provider that stands for a member. */
export interface BoundIdentity {
  id: string;
  issuer_id: string;
  /** The name of the identity provider. */
  issuer: string;
  subject: string;
  /** Who invited; null if the member was made at the first sign-in. */
  created_by: string | null;
  created_at: Date;
}

interface Subject {
  org_id: string;
  user_id: string;
}

/** What is bound to a member in an organization, newest first. */
export function list(db: Db, member: Subject): Promise<BoundIdentity[]> {
  return many(
    db,
    `select i.id, i.issuer_id, p.name as issuer, i.subject, i.created_by, i.created_at
     from identities i join identity_issuers p on p.id = i.issuer_id
     where i.org_id = :org_id and i.user_id = :user_id order by i.created_at desc, i.id desc limit 200`,
    { ...member },
  );
}

/** Unbinds a subject, and ends in the same transaction the sessions that came from its issuer. */
export async function unbind(trx: Db, { id, ...member }: Subject & { id: string }): Promise<void> {
  const { issuer_id } = await one<{ issuer_id: string }>(
    trx,
    `delete from identities where id = :id and org_id = :org_id and user_id = :user_id returning issuer_id`,
    { id, ...member },
    'No identity of this member',
  );
  await many(
    trx,
    `update tokens set revoked_at = clock_timestamp()
     where org_id = :org_id and user_id = :user_id and issuer_id = :issuer_id and purpose = 'session' and revoked_at is null`,
    { ...member, issuer_id },
  );
}
