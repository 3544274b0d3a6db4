import { z } from 'zod';
import { actor_types } from '../../domain/audit-log';
import { id, parts, time } from './shared';

const members = z.record(z.string(), z.unknown());

export const auditEntry = z.strictObject({
  id,
  created_at: time,
  org_id: id.nullable().describe('null: it concerns the whole platform.'),
  actor: z.strictObject({
    type: z
      .enum(actor_types)
      .describe("A key that stands for nobody is key, the platform's platform."),
    id: id.nullable().describe('The person or key; null for a program.'),
    name: z.string().nullable().describe('As they are called now; of a program its name.'),
  }),
  key_id: id.nullable().describe('The credential that was used; null for a person with a JWT.'),
  session_id: id.nullable().describe('The session that the person had signed in with.'),
  request_id: id.nullable(),
  action: id.describe('A noun and what became of it: created, changed, credited, approved, ended.'),
  object: z.strictObject({
    type: z.string().describe('The noun of the action.'),
    id: id.describe('What was changed; it may be gone by now.'),
  }),
  before: members.nullable().describe('What was changed, as it was; null: there was nothing.'),
  after: members
    .nullable()
    .describe('As it is since; of a sealed member only {changed: true}. null: it is gone.'),
  seq: z
    .int()
    .nullable()
    .describe(
      'Its place in the chain of its organization, from 1 without gaps; null: its link is gone.',
    ),
  prev_hash: z.string().nullable().describe('The hash of the row before it; empty for the first.'),
  hash: z.string().nullable().describe('SHA-256 over what the row says, its place and prev_hash.'),
});

export const auditLog = parts({ audit_log: auditEntry });
