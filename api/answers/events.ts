import { z } from 'zod';
import { types as eventTypes } from '../../domain/events';
import { id, time } from './shared';

export const health = z.strictObject({ status: z.literal('ok'), version: z.string() });
export const readiness = z.strictObject({
  status: z.literal('ready'),
  exhausted_pools: z
    .array(z.enum(['machine', 'people', 'reads']))
    .describe('Pools of connections to the database of which none is free.'),
});

export const event = z.strictObject({
  id,
  type: z.enum(eventTypes),
  action: z.string().nullable(),
  org_id: id,
  agent_id: id.nullable(),
  request_id: id.nullable().describe("The call's id."),
  trace_label: id.nullable().describe("The client's X-Request-Id."),
  created_at: time,
  payload: z.record(z.string(), z.unknown()).describe('What the kind of event says.'),
});

export const events = z.strictObject({
  events: z.array(event),
  has_more: z.boolean(),
  next_cursor: z.string().nullable().describe('Where the next page begins; null at the end.'),
});

export const recorded = z.strictObject({ recorded: z.int() });
