import { z } from 'zod';
import { named_types } from '../../domain/people/names';
import { permissions } from '../../domain/people/roles';
import { id, money, time } from './shared';

export const organization = z.strictObject({
  id,
  name: id,
  currency: id,
  created_at: time,
  suspended_at: time.nullable().describe('Its keys are refused since then; null: they are not.'),
  suspended_for: z.string().nullable().describe('What a platform admin said about it.'),
  archived_at: time.nullable().describe('It has ended then; null: it lives.'),
});

/** The names of ids that were asked for. */
export const names = z.strictObject({
  names: z.array(
    z.strictObject({
      id: id.describe('The id that was asked for.'),
      type: z.enum(named_types).describe('What it is the id of.'),
      name: z.string().describe('A wallet and a budget are called as their owner is.'),
    }),
  ),
});

/** A team or an agent. */
export const named = z.strictObject({
  id,
  name: id,
  created_at: time,
  archived_at: time.nullable(),
});

export const member = z.strictObject({
  user_id: id,
  name: z.string(),
  email: z.string().nullable(),
  role: z.enum(['owner', 'admin', 'billing_admin', 'member']),
  created_at: time,
});

const teamRole = z
  .enum(['member', 'admin'])
  .describe("admin: may spend the team's money on its members.");

export const teamMember = z.strictObject({ team_id: id, user_id: id, role: teamRole });

export const listedTeamMember = teamMember.extend({
  name: z.string(),
  email: z.string().nullable(),
  created_at: time,
  given_left: money
    .nullable()
    .describe(
      'What is left of what the team gave to this person, which it may take back; null unless with_given_left asks for it.',
    ),
});

/** A member with the teams that they are in. */
export const memberWithTeams = member.extend({
  teams: z.array(z.strictObject({ team_id: id, name: z.string(), role: teamRole })),
});

/** What became of each person of a list, in its order. */
export const membersAdded = z.strictObject({
  results: z.array(
    z.union([
      z.strictObject({ status: z.literal(201), member: memberWithTeams }),
      z.strictObject({
        status: z.int(),
        error: z.strictObject({
          code: z.string(),
          message: z.string(),
          param: z.string().nullable(),
        }),
      }),
    ]),
  ),
});

export const memberKeySettings = z.strictObject({
  enabled: z.boolean(),
  max_keys: z.int(),
  max_budget: money.nullable(),
  budget_window: z
    .enum(['hour', 'day', 'week', 'month'])
    .nullable()
    .describe('The window of max_budget; null: the life of a key.'),
  allowed_models: z.array(z.string()).nullable(),
  max_days: z.int().nullable(),
});

const tokenFields = {
  id,
  name: z.string(),
  token_type: z.enum(['access', 'gateway']),
  prefix: z.string(),
  scopes: z.array(z.enum(permissions)),
  allowed_models: z.array(z.string()).nullable().describe('null: every model; []: none.'),
  user_id: id.nullable(),
  team_id: id.nullable(),
  agent_id: id.nullable(),
  max_budget: money.nullable(),
  spent: money,
  budget_window: z
    .enum(['hour', 'day', 'week', 'month'])
    .nullable()
    .describe('The window of max_budget; null: the key in its life.'),
  budget_used: money
    .nullable()
    .describe('What is spent and held in that window, or life; null without max_budget.'),
  budget_resets_at: time.nullable(),
  rpm: z.int().nullable(),
  tpm: z.int().nullable(),
  max_parallel_requests: z.int().nullable(),
  include_cost: z.boolean(),
  created_by: id.nullable().describe('The person who made it; the key, if that stood for nobody.'),
  created_at: time,
  expires_at: time.nullable(),
  last_used_at: time.nullable(),
  status: z.enum(['active', 'expired', 'revoked']),
};

export const token = z.strictObject(tokenFields);

export const issuedToken = z.strictObject({
  ...tokenFields,
  key: z.string().describe('The value itself, shown in this answer only.'),
});

export const endedTeamKeys = z.strictObject({
  revoked_keys: z.array(token).describe('Keys that were revoked in the same step.'),
});

export const endedKeys = endedTeamKeys.extend({
  kept_keys: z.array(token).describe("Keys of keep_keys, which are the caller's now."),
  unbound_identities: z
    .array(z.strictObject({ id, user_id: id, issuer: z.string(), subject: z.string() }))
    .describe('Sign-ins that this person had bound to members; they are unbound.'),
});

export const changedMember = member.extend(endedKeys.shape);

export const auditEvent = z.strictObject({
  id,
  created_at: time,
  org_id: id.nullable().describe('null: it concerns the whole platform.'),
  actor: id
    .nullable()
    .describe('The person, or the key that stands for nobody; null: the installation itself.'),
  key_id: id.nullable().describe('The access key that was used; null for a person with a JWT.'),
  request_id: id.nullable(),
  action: id.describe('A noun and what became of it: created, changed, rotated or ended.'),
  object_id: id.describe('What was changed.'),
  before: z.record(z.string(), z.unknown()).nullable(),
  after: z
    .record(z.string(), z.unknown())
    .nullable()
    .describe('What was changed; of a secret only that it was.'),
});
