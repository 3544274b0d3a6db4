import * as issuers from '../../domain/people/issuers';
import { type Db, maybe } from '../../domain/sql';
import { client_id, demo_domain, groups } from '../identity/people';
import type { Seeded } from './seed';

const NAME = 'Sandbox';

/** Lets the people of the sandbox's identity provider sign in, wherever this start has put it. */
export async function seedIdentity(db: Db, seeded: Seeded, url: string): Promise<void> {
  const { organization_id: org_id, team_id } = seeded;
  const none = { team_id: null, team_role: null, role: null };
  const fields: issuers.IssuerFields = {
    org_id,
    name: NAME,
    issuer: url,
    client_id,
    jwks_url: `${url}/jwks`,
    authorization_url: `${url}/auth`,
    token_url: `${url}/token`,
    subject: 'bound',
    email_domains: [demo_domain],
    groups_claim: 'groups',
    group_grants: [
      { ...none, group: groups.research, team_id, team_role: 'member' },
      { ...none, group: groups.leads, team_id, team_role: 'admin' },
      { ...none, group: groups.finance, role: 'billing_admin' },
    ],
  };
  await db.transaction(async (trx) => {
    const known = await maybe<{ id: string; issuer: string }>(
      trx,
      `select id, issuer from identity_issuers where org_id = :org_id and name = :name and archived_at is null limit 1`,
      { org_id, name: NAME },
    );
    if (known === undefined) await issuers.create(trx, fields);
    else if (known.issuer !== url) {
      // What else somebody has changed in it stays.
      const { issuer, jwks_url, authorization_url, token_url } = fields;
      await issuers.update(trx, known.id, { issuer, jwks_url, authorization_url, token_url });
    }
  });
}
