import { z } from 'zod';
import { permissions } from '../../domain/people/tokens';
import { id, money, time } from './shared';

export const organization = z.strictObject({ id, name: id, currency: id, created_at: time });

/** A team or an agent. */
export const named = z.strictObject({ id, name: id, created_at: time });

export const member = z.strictObject({
  user_id: id,
  name: z.string(),
  email: z.string().nullable(),
  role: z.enum(['owner', 'admin', 'billing_admin', 'member']),
  created_at: time,
});

export const teamMember = z.strictObject({ team_id: id, user_id: id });

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
