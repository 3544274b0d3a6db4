import { z } from 'zod';
import { permissions } from '../../domain/people/roles';
import { balances } from './money';
import { member } from './people';
import { id, time } from './shared';

const sessionFields = {
  id,
  org_id: id,
  user_id: id,
  method: z.enum(['access_key', 'one_time_code', 'oidc']).describe('How the person signed in.'),
  issuer: z.string().nullable().describe('The name of the identity provider; null: by no such.'),
  created_at: time,
  last_used_at: time.nullable(),
  expires_at: time.describe('Twelve hours after its making, or the end of its key.'),
  idle_ends_at: time.describe('An hour after its last use, which is noted once a minute.'),
  is_current: z.boolean().describe('This is the session that asks.'),
};

const scopes = z.array(z.enum(permissions));

export const newSession = z.strictObject({
  ...sessionFields,
  org_id: id.nullable().describe('null, as is user_id: of a key of platform:admin.'),
  user_id: id.nullable(),
  scopes: scopes.describe("What it may do now: its person's role cuts it at each use."),
  key: z.string().describe('The access key of the session, shown in this answer only.'),
});

export const sessionList = z.strictObject({ sessions: z.array(z.strictObject(sessionFields)) });

export const endedSessions = z.strictObject({ ended: z.int().describe('So many sessions.') });

const role = z.enum(['admin', 'billing_admin', 'member']);

export const issuer = z.strictObject({
  id,
  org_id: id.nullable().describe('null: it signs in the people of all organizations.'),
  name: z.string(),
  issuer: z.string(),
  client_id: z.string(),
  jwks_url: z.string(),
  authorization_url: z.string().nullable(),
  token_url: z.string().nullable(),
  subject: z.enum(['user_id', 'bound']),
  email_domains: z.array(z.string()),
  groups_claim: z.string().nullable(),
  group_grants: z.array(
    z.strictObject({
      group: z.string(),
      team_id: id.nullable(),
      team_role: z.enum(['member', 'admin']).nullable(),
      role: role.nullable(),
    }),
  ),
  has_client_secret: z.boolean(),
  created_at: time,
});

export const issuerChoice = z.strictObject({
  id,
  name: z.string(),
  issuer: z.string(),
  client_id: z.string(),
  authorization_url: z.string().nullable(),
});

export const invitation = z.strictObject({
  user_id: id,
  invitation: z.string().describe('The code, shown in this answer only; it binds one sign-in.'),
  expires_at: time,
});

export const identity = z.strictObject({
  id,
  issuer_id: id,
  issuer: z.string(),
  subject: z.string(),
  created_by: id.nullable().describe('Who invited; null: made at the first sign-in.'),
  created_at: time,
});

export const me = z.strictObject({
  user: z.strictObject({ user_id: id, name: z.string(), email: z.string().nullable() }).nullable(),
  org_id: id.nullable().describe('The organization that this key acts for.'),
  permissions: scopes.describe('What this key may do there now.'),
  session: z.strictObject({ id, expires_at: time, idle_ends_at: time }).nullable(),
  memberships: z.array(
    z.strictObject({
      org_id: id,
      name: z.string(),
      currency: z.string(),
      time_zone: z.string().describe('The zone that its days, budgets and reports are of.'),
      role: member.shape.role,
      teams: z.array(
        z.strictObject({ team_id: id, name: z.string(), role: z.enum(['member', 'admin']) }),
      ),
    }),
  ),
  wallets: z
    .array(z.strictObject({ team_id: id.nullable(), ...balances.shape }))
    .describe('What pays in the organization of this key: without a team, then for each team.'),
});
