import { z } from 'zod';
import { types as eventTypes } from '../domain/events';
import { statuses as sessionStatuses } from '../domain/payments';
import { scopes } from '../domain/tokens';
import { paymentProvider } from './fields';

// What the routes answer, as the OpenAPI page shows it; tests hold every answer against these. Money is in major units.

const time = z.iso.datetime();
const id = z.string();
const money = z.number();

export const nothing = z.strictObject({});

/** A list's envelope: `{<name>: [...], has_more, total}`. */
export function list<Item extends z.ZodType>(named: Record<string, Item>) {
  const [name = '', item] = Object.entries(named)[0] ?? [];
  return z.strictObject({
    [name]: z.array(item as Item),
    has_more: z.boolean(),
    total: z.int(),
  });
}

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

export const wallet = z.strictObject({
  wallet_id: id,
  owner_type: z.enum(['organization', 'team', 'user']),
  owner_org_id: id,
  owner_team_id: id.nullable(),
  owner_user_id: id.nullable(),
  owner_name: z.string(),
  balance: money.describe('What can be spent now; open holds have left it.'),
  reserved: money.describe('The sum of open holds.'),
  low_balance_threshold: money.nullable(),
  currency: id,
});

export const balances = z.strictObject({
  user_balance: money,
  team_balance: money,
  org_balance: money,
  effective_available_balance: money,
  effective_wallet_owner_type: z.enum(['user', 'team', 'organization']),
  reserve_buffer_pct: z.number(),
  currency: id,
});

export const transaction = z.strictObject({
  id,
  wallet_id: id,
  seq: z.int(),
  type: z.enum([
    'credit',
    'reservation',
    'settlement',
    'allocation_in',
    'allocation_out',
    'payment_credit',
    'payment_refund',
  ]),
  amount: money.describe('Signed: what it adds to the balance.'),
  balance_after: money,
  provider: z.string().nullable(),
  model: z.string().nullable(),
  reservation_id: id.nullable(),
  phase: z.enum(['hold', 'close', 'late']).nullable(),
  actual_cost: money.nullable(),
  transfer_id: id.nullable(),
  payment_session_id: id.nullable(),
  description: z.string().nullable(),
  created_at: time,
});

export const credited = z.strictObject({ wallet, transaction });

export const moved = z.strictObject({
  from: wallet,
  to: wallet,
  transactions: z.array(transaction),
});

export const settings = z.strictObject({
  currency: id,
  reserve_buffer_pct: z.number(),
  low_balance_threshold: money,
  reservation_ttl_seconds: z.int(),
  ticket_ttl_seconds: z.int(),
  default_max_completion_tokens: z.int(),
  manual_credit: z.enum(['allowed', 'platform_only']),
  wallet_user_topup_enabled: z.boolean(),
});

const price = z.number().nullable();

export const modelPrice = z.strictObject({
  id,
  provider: id,
  model: id,
  input_per_1m: z.number(),
  output_per_1m: z.number(),
  cached_input_per_1m: price,
  cache_write_per_1m: price,
  cache_write_1h_per_1m: price,
  audio_input_per_1m: price,
  audio_output_per_1m: price,
  per_minute: price,
  per_1m_characters: price,
  per_request: price,
  per_tool_call: price,
  max_output_tokens: z.int().nullable(),
  reasoning: z.boolean(),
  tiers: z
    .array(
      z.strictObject({
        above_prompt_tokens: z.int(),
        input_per_1m: z.number(),
        output_per_1m: z.number(),
      }),
    )
    .nullable(),
  free: z.boolean(),
  effective_from: time,
  created_at: time,
  updated_at: time,
});

export const catalog = z.strictObject({ models: z.array(modelPrice) });

export const exchangeRates = z.strictObject({
  base: z.literal('USD'),
  rates: z.record(z.string(), z.number()),
  updated_at: time.nullable(),
});

const tokenFields = {
  id,
  name: z.string(),
  token_type: z.enum(['access', 'gateway']),
  prefix: z.string(),
  scopes: z.array(z.enum(scopes)),
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

export const audit = z.strictObject({
  clean: z.boolean(),
  broken: z.array(
    z.strictObject({ check: z.string(), wallet_id: id.nullable(), detail: z.string() }),
  ),
});

export const health = z.strictObject({ status: z.literal('ok'), version: z.string() });
export const readiness = z.strictObject({ status: z.literal('ready') });

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
      z.strictObject({
        id,
        constraint_type: z.enum(['cost', 'responses']),
        interval: z.enum(['hour', 'day', 'week', 'month']),
        max_value: z.number(),
        resets_at: time,
      }),
    )
    .describe('Usage constraints with mode warn that this hold exceeds.'),
});

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
  request_body_hash: z.string(),
  waiting_calls: z.int().describe('Calls that are held on this ticket now.'),
  decided_by: id.nullable(),
  decided_at: time.nullable(),
  note: z.string().nullable(),
  credited_amount: money.nullable().describe('What an approval added to the wallet.'),
  transaction_id: id.nullable(),
  reservation_id: id.nullable(),
  request_id: id.nullable().describe('The call that redeemed it.'),
  resolved_at: time.nullable(),
});

export const settlement = z.strictObject({
  reservation_id: id.nullable(),
  status: z.enum(['settled', 'late', 'released']),
  actual_cost: money,
  released_amount: money,
  wallet_id: id.nullable(),
  balance_after: money.nullable(),
  transaction_id: id.nullable(),
});

export const extensions = z.strictObject({
  results: z.array(
    z.strictObject({
      reservation_id: id,
      status: z.enum(['extended', 'expired', 'settled', 'unknown']),
      expires_at: time.nullable(),
    }),
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
  expires_at: time.nullable(),
});

export const constraint = z.strictObject({
  id,
  agent_id: id,
  constraint_type: z.enum(['cost', 'responses']),
  provider: id,
  model_pattern: z.string().describe('May end in *.'),
  max_value: z.number().describe("In the organization's currency, or in answers."),
  interval: z.enum(['hour', 'day', 'week', 'month']),
  enforcement_mode: z.enum(['reject', 'warn']),
  created_at: time,
  updated_at: time,
});

export const constraints = z.strictObject({ usage_constraints: z.array(constraint) });

export const standings = z.strictObject({
  allowed: z.boolean().describe('False where a constraint with mode reject has no room.'),
  constraints: z.array(
    z.strictObject({
      id,
      constraint_type: z.enum(['cost', 'responses']),
      interval: z.enum(['hour', 'day', 'week', 'month']),
      max_value: z.number(),
      current_value: z.number(),
      remaining: z.number(),
      enforcement_mode: z.enum(['reject', 'warn']),
      exceeded: z.boolean(),
      resets_at: time,
    }),
  ),
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

const sessionStatus = z.enum(sessionStatuses);

export const checkout = z.strictObject({
  payment_session_id: id,
  provider: paymentProvider,
  approval_url: z.url(),
  expires_at: time,
  checkout_state: z.string(),
});

export const confirmation = z.strictObject({
  payment_session_id: id,
  provider: paymentProvider,
  status: sessionStatus,
  wallet_id: id,
  currency: id,
  credited_amount: money.nullable(),
  wallet_balance_after: money.nullable(),
  error_code: z.string().nullable(),
  error_message: z.string().nullable(),
});

export const paymentHistoryItem = z.strictObject({
  id,
  user_id: id.nullable(),
  provider: paymentProvider,
  surface: z.enum(['console', 'chat']),
  amount: money,
  currency: id,
  status: sessionStatus,
  provider_order_id: id.nullable(),
  provider_capture_id: id.nullable(),
  created_at: time,
});

export const paymentSession = paymentHistoryItem.extend({
  org_id: id,
  target_wallet_owner_type: z.enum(['user', 'team', 'organization']),
  target_wallet_owner_id: id.nullable(),
  wallet_id: id,
  wallet_transaction_id: id.nullable(),
  credited_amount: money,
  refunded_amount: money.describe('What refunds and disputes have taken back from the wallet.'),
  late: z.boolean().describe('Paid after the session had ended.'),
  error_code: z.string().nullable(),
  error_message: z.string().nullable(),
  updated_at: time,
  expires_at: time,
});

export const adminPaymentSession = paymentSession.extend({
  captured_amount: money.nullable().describe('What the provider took.'),
  captured_currency: id.nullable(),
  resolution: z
    .enum(['credited', 'refunded', 'closed'])
    .nullable()
    .describe('What was decided about another amount or currency.'),
  resolved_by: id.nullable(),
  resolution_note: z.string().nullable(),
  open_disputes: z.int().describe('Disputes that wait for an answer at the provider.'),
  refunds: z.array(
    z.strictObject({
      id,
      status: z.enum(['pending', 'succeeded', 'failed']),
      amount: money,
      currency: id,
      reason: z.string(),
      requested_by: id,
      provider_refund_id: id.nullable(),
      error_message: z.string().nullable(),
      created_at: time,
    }),
  ),
  provider_message: z
    .string()
    .nullable()
    .describe("The provider's own words about what went wrong."),
});

export const paymentRefund = z.strictObject({
  payment_session_id: id,
  status: sessionStatus,
  provider_refund_id: id.nullable(),
  refund_status: z.enum(['pending', 'succeeded', 'failed']),
  refunded_amount: money,
  currency: id,
});

export const received = z.strictObject({ received: z.literal(true) });

export const legacyOrder = z.strictObject({
  order_id: id,
  approve_link: z.url(),
  status: sessionStatus,
});

export const legacyCapture = z.strictObject({
  order_id: id,
  status: sessionStatus,
  capture_id: id.nullable(),
  amount: money,
  currency: id,
  credited_amount: money.nullable(),
});

export const gatewayConfigVersion = z.strictObject({
  version: z.int(),
  config: z
    .record(z.string(), z.unknown())
    .nullable()
    .describe('Null where gateways run their own files.'),
  note: z.string().nullable(),
  created_by: id,
  created_at: time,
});

export const polledConfig = gatewayConfigVersion.pick({ version: true, config: true });

export const gatewayConfig = z.strictObject({
  version: z.int().nullable().describe('Null where gateways run their own files.'),
  config: z.record(z.string(), z.unknown()).nullable(),
  note: z.string().nullable().optional(),
  created_by: id.optional(),
  created_at: time.optional(),
  gateways: z.array(
    z.strictObject({
      id,
      host: z.string(),
      software_version: z.string().nullable(),
      config_version: z.int().nullable().describe('Null where it runs its own file.'),
      config_hash: z.string().describe('Names the running configuration by its content.'),
      refused_version: z.int().nullable(),
      error: z.string().nullable().describe('Why it refused that version.'),
      started_at: time,
      seen_at: time,
    }),
  ),
});
