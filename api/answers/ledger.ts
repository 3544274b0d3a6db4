import { z } from 'zod';
import { priceSheet, transaction } from './money';
import { frozenKey } from './provider-keys';
import { id, money, time } from './shared';

/** An entry in a list, with the call that it is of. */
export const entry = transaction.extend({
  request_id: id.nullable(),
  user_id: id.nullable(),
  team_id: id.nullable(),
  key_id: id.nullable(),
  agent_id: id.nullable(),
  family: z.string().nullable(),
  session_id: id.nullable(),
  tags: z.array(z.string()).nullable(),
  cost_ticket_id: id.nullable().describe('The ticket that the call waited for.'),
  exchange_rate: z
    .number()
    .nullable()
    .describe("Units of the wallet's currency for 1 USD, as the call was priced."),
  prompt_tokens: z.number().nullable().describe('Of the entry that settled the call.'),
  completion_tokens: z.number().nullable(),
  cached_tokens: z.number().nullable(),
  counterpart: z
    .strictObject({
      wallet_id: id,
      owner_type: z.enum(['organization', 'team', 'user']),
      owner_id: id,
      owner_name: z.string(),
    })
    .nullable()
    .describe(
      "Of a transfer, the wallet on its other side; null of others, and of another person's wallet for who does not bill.",
    ),
  made_by: z
    .strictObject({ id, name: z.string().nullable() })
    .nullable()
    .describe('The actor; of a payment who paid, of a refund who asked for it.'),
});

const hold = z.strictObject({
  reservation_id: id,
  wallet_id: id,
  wallet_owner_type: z.enum(['user', 'team', 'organization']),
  estimated_cost: money,
  reserved_amount: money.describe('The estimate and the buffer.'),
  currency: id,
  exchange_rate: z.number(),
  max_completion_tokens: z.number().nullable(),
  expires_at: time,
});

export const openHold = z.strictObject({
  ...hold.shape,
  request_id: id,
  status: z.literal('open'),
  user_id: id.nullable(),
  team_id: id.nullable(),
  key_id: id.nullable(),
  agent_id: id.nullable(),
  session_id: id.nullable(),
  family: z.string().nullable(),
  provider: id,
  model: id,
  cost_ticket_id: id.nullable(),
  created_at: time,
});

export const story = z.strictObject({
  request_id: id,
  other_request_ids: z
    .array(id)
    .describe(
      "The further calls under the X-Request-Id that was asked for, newest first, 20 at most; empty if the call's own request_id was.",
    ),
  created_at: time,
  status: z.string().nullable().describe('Of its reservation; null: it never held anything.'),
  outcome: z.string().nullable(),
  user_id: id.nullable(),
  team_id: id.nullable(),
  key_id: id.nullable(),
  agent_id: id.nullable(),
  session_id: id.nullable(),
  tags: z.array(z.string()).nullable(),
  family: z.string().nullable(),
  provider: id.nullable().describe('What it asked for.'),
  model: id.nullable(),
  settled_provider: id.nullable().describe('What served it.'),
  settled_model: id.nullable(),
  fallbacks: z.array(z.strictObject({ provider: id, model: id })).nullable(),
  own_keys: z
    .array(frozenKey)
    .nullable()
    .describe('The own keys that might serve it, as they were then; null: there were none.'),
  provider_key_id: id.nullable().describe("The one that did; null: the platform's key."),
  price_factor: priceSheet.shape.price_factor,
  hold: hold.nullable(),
  cost_ticket: z
    .strictObject({
      id,
      status: z.string(),
      estimated_cost: money,
      created_at: time,
      resolved_at: time.nullable(),
      decided_by: id.nullable(),
      decided_at: time.nullable(),
      note: z.string().nullable(),
    })
    .nullable(),
  usage: z.record(z.string(), z.union([z.number(), z.string()])).nullable(),
  usage_source: z.string().nullable(),
  price_lines: priceSheet.shape.lines.describe(
    'They add up to the cost; none while the call is open.',
  ),
  provider_cost_usd: z
    .string()
    .nullable()
    .describe(
      'USD, as the provider itself says that the call cost: for platform admins, and for calls by an own key of the organization.',
    ),
  settlement: z.strictObject({ actual_cost: money, currency: id, settled_at: time }).nullable(),
  transactions: z.array(entry),
  events: z
    .array(
      z.strictObject({
        id,
        type: z.string(),
        created_at: time,
        payload: z.record(z.string(), z.unknown()),
      }),
    )
    .describe('Of 90 days. request.completed tells of attempts, and of what a provider refused.'),
});
