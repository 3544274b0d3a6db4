import { z } from 'zod';
import { amounts } from '../../domain/ledger/price-lists';
import { COMING_MAX, nameOf } from '../../domain/prices/plan';
import { id, time } from './shared';

// The shapes of price plans, which are sent as they were answered.

const amount = z
  .string()
  .regex(
    /^(0|[1-9]\d{0,9})(\.\d{0,11}[1-9])?$/,
    'must be a decimal such as 2.5, of at most 12 places and without needless zeros',
  )
  .refine((text) => Number(text) <= 1_000_000_000, 'must be at most a thousand million')
  .describe('Exact: USD per million tokens, or per unit.');
const listed = Object.fromEntries(amounts.map((name) => [name, amount.optional()])) as Record<
  (typeof amounts)[number],
  z.ZodOptional<typeof amount>
>;
const tiers = z.array(z.strictObject({ above_prompt_tokens: z.int().min(0), ...listed })).max(16);
const listedPrice = z.strictObject({
  amounts: z.strictObject(listed),
  tiers,
  service_tiers: z
    .record(
      z.string().regex(/^[\w.:-]{1,64}$/),
      z.strictObject({ amounts: z.strictObject(listed), tiers }),
    )
    .refine((given) => Object.keys(given).length <= 16, 'may have at most 16 names'),
});
const words = z.array(z.string().max(1_100)).max(100);
const day = z.iso.date();
const name = z.string().min(1).max(200);
// Names stand as provider/model, and an import makes no patterns.
const provider = name.refine((text) => !text.includes('/'), 'must have no slash');
const model = name.refine((text) => !text.includes('*'), 'must be an exact name');

export const metadata = z.strictObject({
  context_length: z.int().min(1).optional(),
  max_output_tokens: z.int().min(1).max(1_000_000_000).optional(),
  input_modalities: z.array(z.string().max(64)).max(16).optional(),
  output_modalities: z.array(z.string().max(64)).max(16).optional(),
  supported_parameters: z.array(z.string().max(64)).max(64).optional(),
  deprecation_date: day.optional(),
  successor: name.optional(),
  reasoning: z.boolean().optional(),
  uplifts: z.array(z.string().max(200)).max(16).optional(),
});

const source = z.strictObject({
  catalog: z.enum(['genai-prices', 'litellm', 'openrouter', 'models.dev']),
  version: z.string().max(1_000).describe('Of a package; else the name of the file or address.'),
  sha256: z.string().max(64),
  dated: day.nullable().describe('The day of its data, where it is known.'),
});

const missing = z.array(
  z.strictObject({
    provider: z.string().max(1_000),
    model: z.string().max(1_000),
    near: z
      .array(z.string().max(1_000))
      .max(3)
      .describe('Names that begin alike: hints, no prices.'),
  }),
);

/** More than all catalogs have models of all sellers. */
export const ROWS_MAX = 5_000;

export const plan = z.strictObject({
  format: z.literal('svc-prices-plan/1'),
  made_at: z.iso.datetime({ offset: true }),
  sources: z.array(source).max(8),
  factors: z.record(name, amount).describe('By provider: what its amounts were multiplied with.'),
  told: z
    .array(name)
    .max(1_000)
    .optional()
    .describe('Whose factor the import was told, and no target. Absent: all.'),
  rows: z
    .array(
      z.strictObject({
        ...{ provider, model },
        catalog: z.string().max(1_100).describe('Which catalog proposes it, with version and day.'),
        seller: name.describe('Whose price it is.'),
        factor: amount.nullable().describe('What its amounts were multiplied with.'),
        confirmed_by: words,
        against: id.nullable().describe('The version of the price that the plan was made against.'),
        price: listedPrice,
        coming: z.array(z.strictObject({ from: day, price: listedPrice })).max(COMING_MAX),
        metadata,
        doubts: words,
        lost: words,
      }),
    )
    .max(ROWS_MAX)
    .refine(
      (rows) => new Set(rows.map(nameOf)).size === rows.length,
      'has two rows of one provider and model',
    ),
  missing: missing.max(ROWS_MAX).describe('Served models that no catalog knows by this very name.'),
  gone: z.array(z.string().max(1_000)).max(ROWS_MAX).describe('Imported before, listed no more.'),
});

// Not all that changes is an amount: of `reasoning` it is a word, of tokens and factors a number.
const side = z
  .union([amount, z.enum(['true', 'false'])])
  .nullable()
  .describe('Decimal text; true or false of `reasoning`; null if it is not said.');

const changes = z.array(
  z.strictObject({
    amount: z
      .string()
      .describe(
        '`input_per_1m`, `above 200000: output_per_1m`; or `max_output_tokens`, `reasoning`, `price_factor`.',
      ),
    was: side,
    now: side,
    percent: z.string().nullable(),
  }),
);

export const diff = z.strictObject({
  rows: z.array(
    z.strictObject({
      provider: name,
      model: name,
      group: z
        .enum(['new', 'changed', 'asks', 'kept', 'same', 'moved'])
        .describe(
          'asks: needs a yes of its own; kept: by hand, stays unless taken; moved: changed since the plan was made.',
        ),
      changes,
      doubts: z.array(z.string()).describe('Why it asks.'),
      has_news: z.boolean().describe('What is known of the model is not what is stored.'),
      is_empty: z.boolean().describe('No amount is listed: free, or unknown.'),
      may_be_free: z.boolean().describe('Somebody may say that it costs nothing.'),
      coming: z
        .array(z.strictObject({ from: day, changes }))
        .describe('Prices that would be planned, each beside the one before it.'),
      withdrawn: z.array(day).describe('Planned by an import, and listed no more.'),
      lost: z.array(z.string()).describe('Figures of the catalog that a price has no place for.'),
      catalog: z.string(),
      confirmed_by: z.array(z.string()),
    }),
  ),
  missing,
  gone: z.array(z.string()),
});

export const planned = z.strictObject({ plan, diff });

export const priceImport = z.strictObject({
  id,
  created_at: time,
  actor: z.string(),
  sources: z.array(source),
  plan_sha256: z.string(),
  undone_at: time.nullable(),
  undone_by: z.string().nullable(),
  prices: z.int().describe('The versions of prices that it made, planned ones too.'),
});

export const priceImports = z.strictObject({ imports: z.array(priceImport) });

export const undone = z.strictObject({
  restored: z.array(z.string()).describe('`provider/model`, back at the version before.'),
  removed: z.array(z.string()).describe('Had no price before.'),
  kept: z.array(z.string()).describe('Changed since: left alone.'),
});

export const priceCheck = z.strictObject({
  checked_at: time,
  unpriced: z
    .array(z.string())
    .describe(
      '`provider/model`: served, and refused without a price; `provider/*` where its server lists what it serves and none of that has one.',
    ),
  differs: z
    .array(
      z.strictObject({
        name: z.string(),
        catalog: z.string(),
        changes,
        doubts: z.array(z.string()),
      }),
    )
    .describe(
      'Imported, and listed otherwise by that catalog now, or of another `price_factor` than its targets have.',
    ),
  beside: z
    .array(z.strictObject({ name: z.string(), catalog: z.string(), changes }))
    .describe('Imported from one catalog, and listed otherwise by another: no fault.'),
  by_hand: z.array(z.strictObject({ name: z.string(), catalog: z.string(), changes })),
  unknown: z.array(z.string()).describe('Priced, and known to no catalog.'),
  old: z.array(z.string()),
  told_costs: z
    .array(
      z.strictObject({
        name: z.string(),
        calls: z.int(),
        ours_usd: z.string().describe('What the calls cost by the price list.'),
        theirs_usd: z.string().describe('What their provider says that they cost.'),
        ratio: z.string().nullable().describe('Ours by theirs; null if theirs is zero.'),
        standing: z
          .enum(['close', 'below', 'above', 'few'])
          .describe('From 2 % on it is below or above, with at least 5 calls.'),
        is_decided: z
          .boolean()
          .describe('Set by hand, or with a factor: to be above is no fault then.'),
      }),
    )
    .describe('Without calls by own keys of organizations.'),
  cost_days: z.int(),
  faults: z.int(),
});
