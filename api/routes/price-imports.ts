import { z } from 'zod';
import { AppError } from '../../domain/errors';
import * as configs from '../../domain/gateways/configs';
import { check } from '../../domain/prices/check';
import { diff } from '../../domain/prices/diff';
import { servedByVersions } from '../../domain/prices/factors';
import * as imports from '../../domain/prices/imports';
import { makePlan, type Plan } from '../../domain/prices/plan';
import { seller_names, sellerOf } from '../../domain/prices/sellers';
import { atPlaces } from '../../domain/prices/served';
import { COST_DAYS, COST_DAYS_MAX } from '../../domain/prices/told-costs';
import { undo } from '../../domain/prices/undo';
import type { Db } from '../../domain/sql';
import { builtInCatalog } from '../../price-catalogs/built-in';
import * as answers from '../answers/prices';
import { actorOf, platformAdmin } from '../http/access';
import { id } from '../http/fields';
import { type Ctx, route } from '../http/route';

const nothing = z.strictObject({});
const asked = z.strictObject({
  providers: z
    .string()
    .max(1_000)
    .optional()
    .describe(
      'All models of these sellers, by commas: openai,anthropic. Absent: what the gateways serve.',
    ),
});
const named = z.array(z.string().min(1).max(520)).max(answers.ROWS_MAX).default([]);
const taken = z.strictObject({
  plan: answers.plan,
  take: named.describe('`provider/model`: rows that ask, or that replace a price by hand.'),
  free: named.describe('`provider/model`: models without a listed amount that cost nothing.'),
  skip_asking: z.boolean().default(false).describe('Leave what asks as it is.'),
});
const checked = z.strictObject({
  days: z.coerce
    .number<number>()
    .int()
    .min(1)
    .max(COST_DAYS_MAX)
    .default(COST_DAYS)
    .describe('Of so many days costs are compared.'),
});
const one = z.strictObject({ id });

/** Prices from catalogs: a plan, its difference, a person's yes, and the way back. */
export const priceImportRoutes = [
  route({
    method: 'get',
    path: '/v1/admin/price-plan',
    access: platformAdmin,
    input: asked,
    handler: plan,
    summary:
      'Propose prices of the catalog that comes with this version, and say what they would change. Nothing is changed or fetched.',
    answer: answers.planned,
  }),
  route({
    method: 'post',
    path: '/v1/admin/price-imports/diff',
    access: platformAdmin,
    input: z.strictObject({ plan: answers.plan }),
    is_huge: true,
    handler: compare,
    summary: 'What a plan would change by now. Nothing is changed.',
    answer: answers.diff,
  }),
  route({
    method: 'post',
    path: '/v1/admin/price-imports',
    access: platformAdmin,
    input: taken,
    is_huge: true,
    is_recorded: true,
    handler: take,
    status: 201,
    summary:
      'Take a plan over, all of it or nothing: new versions of prices; requests under way keep theirs.',
    answer: answers.priceImport,
  }),
  route({
    method: 'get',
    path: '/v1/admin/price-imports',
    access: platformAdmin,
    input: nothing,
    handler: ({ db }: Ctx) => listed(db),
    summary: 'The newest 200 imports of prices.',
    answer: answers.priceImports,
  }),
  route({
    method: 'post',
    path: '/v1/admin/price-imports/:id/undo',
    access: platformAdmin,
    input: one,
    is_recorded: true,
    handler: giveBack,
    summary:
      'Make the versions before an import current again, where nobody has changed them since.',
    answer: answers.undone,
  }),
  route({
    method: 'get',
    path: '/v1/admin/price-check',
    access: platformAdmin,
    input: checked,
    handler: compareAll,
    summary:
      'Served models without a price, prices that the catalog inside lists otherwise, and what providers say that calls cost.',
    answer: answers.priceCheck,
  }),
];

async function plan({ db }: Ctx, { providers }: z.infer<typeof asked>) {
  const { served, factors } = await servedByVersions(db, await configs.assigned(db));
  const wanted =
    providers === undefined
      ? { served, whole: [] }
      : { served: [], whole: atPlaces(sellersIn(providers), served) };
  const made = await makePlan(db, [await builtInCatalog()], wanted, factors, []);
  return { plan: made, diff: await diff(db, made) };
}

function sellersIn(providers: string) {
  return providers.split(',').map((name) => {
    const provider = name.trim();
    if (sellerOf(provider) !== undefined) return { provider };
    throw new AppError(
      'invalid_field',
      `The catalog knows no seller "${provider}". It knows ${seller_names.join(', ')}.`,
      { param: 'providers' },
    );
  });
}

function compare({ db }: Ctx, input: { plan: z.infer<typeof answers.plan> }) {
  return diff(db, input.plan as Plan);
}

function take({ db, principal }: Ctx, { plan: given, ...consent }: z.infer<typeof taken>) {
  return imports.apply(db, given as Plan, consent, actorOf(principal));
}

async function listed(db: Db) {
  return { imports: await imports.list(db) };
}

function giveBack({ db, principal }: Ctx, input: z.infer<typeof one>) {
  return undo(db, input.id, actorOf(principal));
}

async function compareAll({ db }: Ctx, { days }: z.infer<typeof checked>) {
  return check(
    db,
    [await builtInCatalog()],
    await servedByVersions(db, await configs.assigned(db)),
    days,
  );
}
