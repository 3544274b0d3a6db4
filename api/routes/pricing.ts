import { z } from 'zod';
import { sha256 } from '../../domain/digest';
import { AppError } from '../../domain/errors';
import * as exchangeRates from '../../domain/exchange-rates';
import { type Amount, amounts, isNeeded } from '../../domain/ledger/price-lists';
import * as pricing from '../../domain/ledger/pricing';
import * as previews from '../../domain/ledger/views/price-preview';
import { toWire } from '../../runtime/wire';
import * as answers from '../answers/money';
import * as shared from '../answers/shared';
import { open, platformAdmin } from '../http/access';
import { answerUnlessKnown } from '../http/etags';
import { currency, flag, id, instant } from '../http/fields';
import { type Ctx, route } from '../http/route';

// Prices are kept as decimals; a double says at most 15 digits of one exactly.
const price = z.number().min(0, 'must not be negative').max(1_000_000_000);
const listed = Object.fromEntries(amounts.map((name) => [name, price.optional()])) as Record<
  Amount,
  z.ZodOptional<typeof price>
>;
const tiers = z
  .array(z.strictObject({ above_prompt_tokens: z.int().min(0), ...listed }))
  .min(1)
  .max(16);
// The names stand in answers of providers.
const lists = z
  .record(
    z.string().regex(/^[\w.:-]{1,64}$/, 'must be a name of letters, digits and . _ : -'),
    z.union([price, z.strictObject({ ...listed, tiers: tiers.optional() })]),
  )
  .refine((given) => Object.keys(given).length <= 16, 'may have at most 16 names');
const figures = {
  ...(Object.fromEntries(
    amounts.map((name) => [name, (isNeeded(name) ? price : price.nullable()).optional()]),
  ) as Record<Amount, z.ZodOptional<z.ZodNullable<typeof price>>>),
  // Lists of this API have a member of that name, which means something else.
  per_page: price.nullable().optional().describe('USD per page.'),
  max_output_tokens: z.int().min(1).max(1_000_000_000).nullable().optional(),
  reasoning: flag.optional(),
  tiers: tiers.nullable().optional(),
  service_tiers: lists.nullable().optional(),
  regions: lists.nullable().optional(),
  free: flag.optional(),
  effective_from: instant.optional(),
};
const model = id.refine(
  (pattern) => !pattern.slice(0, -1).includes('*'),
  'may have one * at its end',
);
const newPrice = z.strictObject({ provider: id, model, ...figures });
const change = z.strictObject({
  id,
  provider: id.optional(),
  model: model.optional(),
  ...figures,
  source: z
    .enum(['hand', 'import'])
    .optional()
    .describe('`import` gives the price back to imports; what a person changes is by hand.'),
});

const DAYS_MAX = 31;
const previewed = newPrice
  .omit({ effective_from: true })
  .extend({ days: z.int().min(1).max(DAYS_MAX).default(7) });
const removal = z.strictObject({ id, effective_from: instant.optional() });
const rates = z.strictObject({
  base: z.literal('USD').optional(),
  rates: z.record(
    currency.refine((code) => code !== 'USD', 'is the base of all rates, always 1'),
    z.number().positive('must be above 0').max(1e9),
  ),
});

export const pricingRoutes = [
  route({
    method: 'get',
    path: '/v1/model-pricing',
    access: open,
    input: z.strictObject({}),
    handler: catalog,
    summary: 'The prices in force now. Carries an ETag.',
    answer: answers.catalog,
  }),
  route({
    method: 'get',
    path: '/v1/admin/model-pricing',
    access: platformAdmin,
    input: z.strictObject({}),
    handler: list,
    summary: 'All prices, each planned version as a row of its own.',
    answer: answers.catalog,
  }),
  route({
    method: 'post',
    path: '/v1/admin/model-pricing',
    access: platformAdmin,
    input: newPrice,
    handler: create,
    is_recorded: true,
    summary: 'Set the price of a model.',
    status: 201,
    answer: answers.modelPrice,
  }),
  route({
    method: 'post',
    path: '/v1/admin/model-pricing/preview',
    access: platformAdmin,
    input: previewed,
    handler: preview,
    summary:
      'What the calls of the last days that the price of this name has billed would have cost at another. Nothing is changed.',
    answer: answers.pricePreview,
  }),
  route({
    method: 'put',
    path: '/v1/admin/model-pricing/:id',
    access: platformAdmin,
    input: change,
    handler: update,
    is_recorded: true,
    summary:
      'A new version of a price; reservations keep the one they froze. Planned versions stay, but for one of the same effective_from.',
    answer: answers.modelPrice,
  }),
  route({
    method: 'delete',
    path: '/v1/admin/model-pricing/:id',
    access: platformAdmin,
    input: removal,
    handler: remove,
    is_recorded: true,
    summary: 'Delete a price: its models are refused. With effective_from, that planned version.',
    answer: shared.nothing,
  }),
  route({
    method: 'get',
    path: '/v1/admin/exchange-rates',
    access: platformAdmin,
    input: z.strictObject({}),
    handler: getRates,
    summary: 'Units of each currency for 1 USD.',
    answer: answers.exchangeRates,
  }),
  route({
    method: 'put',
    path: '/v1/admin/exchange-rates',
    access: platformAdmin,
    input: rates,
    handler: putRates,
    is_recorded: true,
    summary: 'Set the named rates; others stay.',
    answer: answers.exchangeRates,
  }),
];

/** By the pools of a process: its reading of the catalog that is under way. */
const readings = new WeakMap<Ctx['pools'], Promise<{ body: string; etag: string }>>();

/** Anybody may ask, without a key and without a bound: all who ask at one time share a reading. */
async function catalog({ db, pools, http }: Ctx) {
  const reading = readings.get(pools) ?? readCatalog(db).finally(() => readings.delete(pools));
  readings.set(pools, reading);
  const { body, etag } = await reading;
  http.type = 'json';
  answerUnlessKnown(http, etag, body);
}

async function readCatalog(db: Ctx['db']) {
  const body = JSON.stringify(toWire({ models: await pricing.catalog(db) }));
  return { body, etag: (await sha256(body)).slice(0, 32) };
}

async function list({ db }: Ctx) {
  return { models: await pricing.list(db) };
}

function create({ db }: Ctx, input: z.infer<typeof newPrice>) {
  return pricing.create(db, {
    ...pricing.blankPrice,
    ...given(input),
  } as pricing.Price);
}

function preview({ db }: Ctx, { days, ...input }: z.infer<typeof previewed>) {
  return previews.preview(db, { ...pricing.blankPrice, ...given(input) } as pricing.Price, days);
}

function update({ db }: Ctx, { id: price_id, ...input }: z.infer<typeof change>) {
  if (Object.keys(input).length === 0)
    throw new AppError('invalid_field', 'Name at least one field to change.');
  return pricing.update(db, price_id, given(input));
}

/** The members that were sent; zod leaves the others undefined. */
function given(input: object): Partial<pricing.Price> {
  return Object.fromEntries(Object.entries(input).filter(([, value]) => value !== undefined));
}

async function remove({ db }: Ctx, { id: price_id, effective_from }: z.infer<typeof removal>) {
  await pricing.remove(db, price_id, effective_from);
}

function getRates({ db }: Ctx) {
  return exchangeRates.current(db);
}

function putRates({ db }: Ctx, input: z.infer<typeof rates>) {
  return exchangeRates.set(db, input.rates);
}
