import { z } from 'zod';
import { metadata } from './prices';
import { id, money, time } from './shared';

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
  phase: z.enum(['hold', 'close', 'late', 'excess']).nullable(),
  actual_cost: money.nullable(),
  transfer_id: id.nullable(),
  payment_session_id: id.nullable(),
  description: z.string().nullable(),
  created_at: time,
  actor: id
    .nullable()
    .describe(
      'Who made it by hand: a person, or a key that stands for nobody. null: a call, a clock or a provider.',
    ),
  approval: z
    .strictObject({
      cost_ticket_id: id,
      decided_by: id.describe('A person, a key, or `rule`.'),
      approval_rule_id: id.nullable(),
    })
    .optional()
    .describe('Of an entry that the approval of a cost ticket made; absent of all others.'),
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
  time_zone: z.string(),
  own_key_factor_min: z.number().describe('The least price_factor of its own provider keys.'),
  price_factor: z
    .number()
    .describe('What it pays of each price: 0.76 is a discount, 1.2 a markup, 0 free of charge.'),
});

const price = z.number().nullable();

const optionalFigures = {
  cached_input_per_1m: price,
  cache_write_per_1m: price,
  cache_write_1h_per_1m: price,
  audio_input_per_1m: price,
  audio_output_per_1m: price,
  image_input_per_1m: price,
  image_output_per_1m: price,
  video_input_per_1m: price,
  video_output_per_1m: price,
  per_minute: price,
  per_1m_characters: price,
  per_request: price,
  per_tool_call: price,
  per_web_search: price,
  per_file_search: price,
  per_container: price,
  per_page: price,
  minimum: price,
  minimum_seconds: price,
};
// A list names what it changes.
const named = z.strictObject({
  input_per_1m: z.number().optional(),
  output_per_1m: z.number().optional(),
  ...z.strictObject(optionalFigures).partial().shape,
});
const tiers = z.array(named.extend({ above_prompt_tokens: z.int() }));
const lists = z
  .record(z.string(), z.union([z.number(), named.extend({ tiers: tiers.optional() })]))
  .nullable();

export const modelPrice = z.strictObject({
  id,
  provider: id,
  model: id,
  input_per_1m: z.number(),
  output_per_1m: z.number(),
  ...optionalFigures,
  max_output_tokens: z.int().nullable(),
  reasoning: z.boolean(),
  tiers: tiers.nullable(),
  service_tiers: lists,
  regions: lists,
  free: z.boolean(),
  source: z
    .enum(['hand', 'import'])
    .describe('`hand`: a person wrote it, and an import leaves it alone unless told otherwise.'),
  catalog: z.string().nullable().describe('Of an imported price: its catalog, version and day.'),
  import_id: id.nullable(),
  metadata: metadata.nullable().describe('What the catalog knows of the model beside its price.'),
  effective_from: time,
  created_at: time,
  updated_at: time,
});

export const pricePreview = z.strictObject({
  provider: id,
  model: id,
  days: z.int(),
  calls: z.int().describe('The settled calls that were looked at, at most 50,000.'),
  truncated: z.boolean().describe('There were more than these.'),
  present_cost: money.describe('USD.'),
  new_cost: money.describe('USD.'),
  dearer_calls: z.int().describe('Calls that would have cost more.'),
});

export const catalog = z.strictObject({ models: z.array(modelPrice) });

export const excess = z.strictObject({
  id,
  org_id: id,
  reservation_id: id,
  status: z.enum(['open', 'charged', 'dropped']),
  wallet_id: id,
  currency: id,
  charged: money.describe('What the settle charged: the bound.'),
  excess: money.describe('What it told beyond that.'),
  created_at: time,
  decided_at: time.nullable(),
  decided_by: id.nullable(),
  note: z.string().nullable(),
  transaction_id: id.nullable(),
});

export const priceSheet = z.strictObject({
  reservation_id: id,
  request_id: id,
  status: z.string(),
  provider: z.string().nullable(),
  model: z.string().nullable(),
  currency: z.string().nullable(),
  provider_key_id: id
    .nullable()
    .describe("The own key of the organization that served; null: the platform's."),
  price_factor: z
    .string()
    .nullable()
    .describe(
      'What prices were multiplied with: by that key, but for per_request, or of the organization; null: 1.',
    ),
  actual_cost: money.nullable(),
  lines: z.array(
    z.strictObject({
      what: z
        .string()
        .describe('The count that is billed; also minimum, beyond_bound and rounding.'),
      quantity: z.string(),
      unit_price: z.string().describe('For one token, second or run, in the currency.'),
      amount: z.string().describe('Exact; the lines add up to actual_cost.'),
    }),
  ),
});

export const exchangeRates = z.strictObject({
  base: z.literal('USD'),
  rates: z.record(z.string(), z.number()),
  updated_at: time.nullable(),
});

export const audit = z.strictObject({
  clean: z.boolean(),
  broken: z.array(
    z.strictObject({ check: z.string(), wallet_id: id.nullable(), detail: z.string() }),
  ),
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

const standingConstraint = constraint.extend({
  current_value: z.number().describe('What is used and held of it in the present window.'),
  resets_at: time.describe('When that window ends.'),
});

export const constraints = z.strictObject({ usage_constraints: z.array(standingConstraint) });

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
