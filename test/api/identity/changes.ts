import { randomUUID } from 'node:crypto';
import * as issuers from '../../../domain/people/issuers';
import * as sessions from '../../../domain/people/sessions';
import { type Db, one } from '../../../domain/sql';
import type { Tenant } from '../../support/api';

interface Makers {
  db: Db;
  tenant: Tenant;
  platform: string;
  /** Makes something by a route; its id. */
  made: (path: string, body: object, key?: string) => Promise<string>;
  newMember: () => Promise<string>;
}

/** Changes of sessions, issuers, invitations and what is bound, for the routes that make them. */
export function identityChanges({ db, tenant, platform, made, newMember }: Makers) {
  const newSession = async () => {
    const person = { org_id: tenant.org_id, user_id: await newMember(), scopes: [] };
    return db.transaction((trx) => sessions.create(trx, person));
  };
  const issuer = () => ({
    name: 'Acme',
    issuer: 'https://id.example',
    client_id: randomUUID(),
    jwks_url: 'https://id.example/jwks',
  });
  const newIssuer = () => made('/v1/admin/issuers', issuer(), platform);
  const newIdentity = async () => {
    const blank = { org_id: null, authorization_url: null, token_url: null, groups_claim: null };
    const settings = { subject: 'bound' as const, email_domains: [], group_grants: [] };
    const { id } = await issuers.create(db, { ...issuer(), ...blank, ...settings });
    const { org_id, member_id } = tenant;
    const bound = await one<{ id: string }>(
      db,
      `insert into identities (issuer_id, org_id, subject, user_id) values (:id, :org_id, :id, :member_id) returning id`,
      { id, org_id, member_id },
    );
    return bound.id;
  };
  const member = '/v1/organizations/:id/members/:user_id';
  return {
    'delete /v1/sessions': {
      body: async () => ({ user_id: (await newSession()).user_id }),
      actions: ['session.ended'],
    },
    'delete /v1/sessions/:id': {
      of: async () => (await newSession()).id,
      actions: ['session.ended'],
    },
    'post /v1/admin/issuers': { body: issuer(), actions: ['identity_issuer.created'] },
    'put /v1/admin/issuers/:id': {
      body: { name: 'Another' },
      of: newIssuer,
      actions: ['identity_issuer.changed'],
    },
    'delete /v1/admin/issuers/:id': { of: newIssuer, actions: ['identity_issuer.ended'] },
    [`post ${member}/invitations`]: { of: newMember, actions: ['invitation.created'] },
    [`delete ${member}/identities/:identity_id`]: { of: newIdentity, actions: ['identity.ended'] },
  };
}
