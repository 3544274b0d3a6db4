import { z } from 'zod';
import type { Extension, Reservation, Settlement, Warning } from '../../domain/ledger/calls';
import type { KeyFunds } from '../../domain/ledger/views/key-funds';
import type { KeyOwner, Person } from '../../domain/people/identity';
import type { Wire } from '../../runtime/wire';
import type { Members } from '../http/fields';
import { budgetWarning, shortBudget, ticketBudget } from './budgets';
import { priceSheet } from './money';
import { frozenKey } from './provider-keys';
import { id, money, time } from './shared';

const proof = z.enum(['header_soft', 'gateway_key', 'signed_assertion']);

export const reservation = z.strictObject({
  reservation_id: id,
  wallet_id: id,
  wallet_owner_type: z.enum(['user', 'team', 'organization']),
  estimated_cost: money,
  reserved_amount: money.describe('The estimate and the buffer: what has left the balance.'),
  currency: id,
  balance_after: money,
  expires_at: time,
  max_completion_tokens: z
    .int()
    .nullable()
    .describe('The completion that the hold pays for; null for holds of an earlier version.'),
  warnings: z
    .array(
      z.union([
        budgetWarning,
        z.strictObject({
          id,
          constraint_type: z.enum(['cost', 'responses']),
          interval: z.enum(['hour', 'day', 'week', 'month']),
          max_value: z.number(),
          resets_at: time,
        } satisfies Members<Warning>),
      ]),
    )
    .describe(
      'Usage constraints with mode warn that this hold exceeds, and budgets that have reached a threshold.',
    ),
  stored_provider: id
    .optional()
    .describe('The provider that keeps the stored things which the request names.'),
  stored_key_id: id
    .optional()
    .describe('The own key in whose account they are; absent: in that of the platform.'),
  stored_at: id
    .optional()
    .describe('The target of a gateway at which they were made; absent if nobody knows.'),
  own_keys: z
    .array(frozenKey)
    .optional()
    .describe('The own keys by which its providers are asked; absent: there are none.'),
  priced_models: z
    .array(z.strictObject({ provider: id, model: id }))
    .optional()
    .describe(
      'Of a redeem: the models whose prices the ticket froze, first the one of its reserve. The call is settled as one of them.',
    ),
} satisfies Members<Wire<Reservation>>);

export const costTicket = z.strictObject({
  id,
  status: z.enum(['open', 'approved', 'denied', 'redeemed', 'expired']),
  provider: id,
  model: id,
  estimated_cost: money.describe('What must be covered, the reserve buffer included.'),
  balance: money.describe('Of the fullest wallet that may pay.'),
  shortfall: money.describe('Credit so much to that wallet and the request is covered.'),
  currency: id,
  wallet_owner_type: z.enum(['user', 'team', 'organization']),
  wallets: z.array(
    z.strictObject({
      wallet_id: id,
      owner_type: z.enum(['user', 'team', 'organization']),
      balance: money,
      shortfall: money,
    }),
  ),
  created_at: time,
  expires_at: time,
  org_id: id,
  key_id: id.nullable(),
  user_id: id.nullable(),
  team_id: id.nullable(),
  agent_id: id.nullable(),
  session_id: id.nullable(),
  asked_by: z.string().describe('Agent, person or key by name, then team and organization.'),
  identity_proof_method: proof.nullable().describe('Null where its gateway does not say.'),
  identity_context: z
    .strictObject({ user_id: id.nullable(), key_id: id.nullable(), team_id: id.nullable() })
    .nullable()
    .describe('Who asks, as events have it; null where nobody proved it.'),
  trace_label: id.nullable().describe("The client's X-Request-Id."),
  request_body_hash: z.string(),
  waiting_calls: z.int().describe('Calls that are held on this ticket now.'),
  cause: z
    .enum(['balance', 'budget'])
    .optional()
    .describe(
      'budget: one has no room, whether or not money is missing; balance: only money is missing.',
    ),
  budget: ticketBudget
    .nullable()
    .optional()
    .describe('The budget that has no room, of several the one whose window ends last.'),
  budgets: z
    .array(ticketBudget)
    .optional()
    .describe(
      'All that have no room; of a closed ticket those that had none, and by how much they were raised.',
    ),
  approval_rule_id: id.optional().describe('The rule that approved it.'),
  decided_by: id.nullable().describe('A person, a key, or `rule`.'),
  decided_at: time.nullable(),
  note: z.string().nullable(),
  credited_amount: money.nullable().describe('What an approval added to the wallet.'),
  transaction_id: id.nullable(),
  reservation_id: id.nullable(),
  request_id: id.nullable().describe('The call that redeemed it.'),
  resolved_at: time.nullable(),
});

/** What became of each ticket: as it stands after the verdict, or why the verdict was refused. */
export const ticketVerdicts = z.strictObject({
  results: z.array(
    z.strictObject({
      ticket_id: id,
      ticket: costTicket.nullable(),
      error: z.strictObject({ code: z.string(), message: z.string(), status: z.int() }).nullable(),
    }),
  ),
});

export const settlement = z.strictObject({
  reservation_id: id.nullable(),
  status: z.enum(['settled', 'late', 'released']),
  actual_cost: money,
  released_amount: money,
  wallet_id: id.nullable(),
  balance_after: money.nullable(),
  transaction_id: id.nullable(),
  price_lines: priceSheet.shape.lines
    .optional()
    .describe('If with_cost asked for them. They add up to actual_cost.'),
} satisfies Members<Wire<Settlement>>);

export const extensions = z.strictObject({
  results: z.array(
    z.strictObject({
      reservation_id: id,
      status: z.enum(['extended', 'expired', 'settled', 'unknown']),
      expires_at: time.nullable(),
    } satisfies Members<Wire<Extension>>),
  ),
});

export const keyOwner = z.strictObject({
  key_id: id,
  secret_id: id.describe('Changes when the key is rotated; a reserve may name it.'),
  org_id: id.nullable(),
  user_id: id.nullable(),
  team_id: id.nullable(),
  agent_id: id.nullable(),
  allowed_models: z.array(z.string()).nullable(),
  rate_limits: z
    .strictObject({
      rpm: z.int().nullable(),
      tpm: z.int().nullable(),
      max_parallel_requests: z.int().nullable(),
    })
    .optional()
    .describe("The key's own limits; null: as the gateway's configuration says of every key."),
  include_cost: z.boolean().optional().describe('Answers tell their cost; absent: they do not.'),
  expires_at: time.nullable(),
} satisfies Members<Wire<KeyOwner>>);

export const keyFunds = z.strictObject({
  key: z
    .strictObject({ id, name: z.string(), expires_at: time.nullable() })
    .nullable()
    .describe('Null where another proof than a key says who calls, and names none.'),
  currency: id,
  price_factor: z.string().describe('What the organization pays of each price, exact.'),
  own_keys: z
    .array(frozenKey.pick({ provider: true, price_factor: true, own_keys: true }))
    .optional()
    .describe('Its own keys: what they serve is paid by their factors. Absent: there are none.'),
  budgets: z
    .array(
      z.strictObject({
        ...shortBudget.pick({ owner_type: true, window: true, resets_at: true }).shape,
        id: id.nullable().describe('Null for the max_budget of a key in its life.'),
        on_exceed: z.enum(['refuse', 'ticket']),
        limit: money.describe('What it allows in this window, raises included.'),
        remaining: money,
      }),
    )
    .describe('Those that count calls of this caller, as far as the caller may see them.'),
  wallet: z
    .strictObject({ owner_type: z.enum(['user', 'team', 'organization']), balance: money })
    .nullable()
    .describe('The one that would pay now; null where the person of the key may not see it.'),
} satisfies Members<Wire<KeyFunds>>);

export const person = z.strictObject({
  user_id: id,
  org_id: id,
  key: keyOwner.nullable(),
} satisfies Members<Wire<Person>>);
