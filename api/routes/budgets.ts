import { z } from 'zod';
import { AppError } from '../../domain/errors';
import * as budgetLists from '../../domain/ledger/budget-lists';
import * as budgets from '../../domain/ledger/budgets';
import * as walletSettings from '../../domain/ledger/wallet-settings';
import { lock, may } from '../../domain/people/rights';
import * as answers from '../answers/budgets';
import * as shared from '../answers/shared';
import { actingOrg, actorOf, member, ownOrg, permission } from '../http/access';
import { amount, currency, id, listParts, search } from '../http/fields';
import { type Ctx, route } from '../http/route';

const ownerType = z.enum(['key', 'user', 'team', 'organization']);
const window = z.enum(['hour', 'day', 'week', 'month', 'life']);
const threshold = z.int().min(1, 'must be at least 1').max(100, 'must be at most 100');
const fields = {
  limit: amount('limit').describe('What its calls may cost in a window, in major units.'),
  window,
  on_exceed: z.enum(['refuse', 'ticket']),
  thresholds: z
    .array(threshold)
    .max(10)
    .transform((given) => [...new Set(given)].sort((a, b) => a - b)),
};
const listed = z.strictObject({
  org_id: id.optional(),
  owner_type: ownerType.optional(),
  owner_id: id.optional(),
  q: search.describe("Words of the owner's name."),
  ...listParts(),
});
const one = z.strictObject({ id });
const created = z.strictObject({
  org_id: id.optional(),
  owner_type: ownerType,
  owner_id: id.optional(),
  currency: currency.optional(),
  ...fields,
  on_exceed: fields.on_exceed.default('refuse'),
  thresholds: fields.thresholds.default([50, 80, 100]),
});
const changed = z.strictObject({
  id,
  currency: currency.optional(),
  ...z.object(fields).partial().shape,
});

const billing = permission('org:billing');

export const budgetRoutes = [
  route({
    method: 'get',
    path: '/v1/budgets',
    access: member,
    input: listed,
    handler: list,
    summary: 'Budgets, newest first; without org:billing those that count your own calls.',
    answer: shared.parts({ budgets: answers.budget }),
  }),
  route({
    method: 'post',
    path: '/v1/budgets',
    access: billing,
    input: created,
    handler: create,
    is_recorded: true,
    summary: 'Limit what a key, a person, a team or the organization may cost in a window.',
    status: 201,
    answer: answers.budget,
  }),
  route({
    method: 'get',
    path: '/v1/budgets/:id',
    access: billing,
    input: one,
    handler: show,
    summary: 'A budget as it stands in its window.',
    answer: answers.budget,
  }),
  route({
    method: 'put',
    path: '/v1/budgets/:id',
    access: billing,
    input: changed,
    handler: change,
    is_recorded: true,
    summary: 'Change the given fields of a budget. A larger limit wakes the calls that wait.',
    answer: answers.budget,
  }),
  route({
    method: 'delete',
    path: '/v1/budgets/:id',
    access: billing,
    input: one,
    handler: remove,
    is_recorded: true,
    summary: 'Take a budget away.',
    answer: shared.nothing,
  }),
];

async function list({ db, principal }: Ctx, input: z.infer<typeof listed>) {
  const { org_id, owner_type, owner_id, q, ...request } = input;
  const acting = await actingOrg(db, principal, org_id);
  const sees_all = may(principal, 'org:billing');
  const user_id = sees_all ? null : (principal.user_id ?? '');
  const filter = { org_id: acting, owner_type, owner_id, q, user_id };
  const { rows, ...envelope } = await budgetLists.list(db, filter, request);
  return { budgets: rows, ...envelope };
}

async function create({ db, principal }: Ctx, given: z.infer<typeof created>) {
  if (given.owner_type !== 'organization' && given.owner_id === undefined)
    throw new AppError(
      'invalid_field',
      `owner_id is missing: the id of the ${given.owner_type} whose calls it counts.`,
      { param: 'owner_id' },
    );
  const org_id = await actingOrg(db, principal, given.org_id);
  await lock(db, org_id, principal, 'org:billing');
  await walletSettings.requireCurrency(db, org_id, given.currency);
  const { owner_type, owner_id, limit, on_exceed, thresholds } = given;
  return budgets.create(db, {
    org_id,
    owner_type,
    owner_id: owner_id ?? org_id,
    limit_nanos: limit,
    window: given.window,
    on_exceed,
    thresholds,
    created_by: actorOf(principal),
  });
}

async function show({ db, principal }: Ctx, input: z.infer<typeof one>) {
  const org_id = await budgets.orgOf(db, input.id, ownOrg(principal));
  return budgets.get(db, org_id, input.id);
}

async function change({ db, principal }: Ctx, input: z.infer<typeof changed>) {
  const { id: budget_id, currency: named, limit: limit_nanos, ...rest } = input;
  const org_id = await budgets.orgOf(db, budget_id, ownOrg(principal));
  await lock(db, org_id, principal, 'org:billing');
  await walletSettings.requireCurrency(db, org_id, named);
  return budgets.update(db, org_id, budget_id, { limit_nanos, ...rest });
}

async function remove({ db, principal }: Ctx, input: z.infer<typeof one>) {
  const org_id = await budgets.orgOf(db, input.id, ownOrg(principal));
  await lock(db, org_id, principal, 'org:billing');
  await budgets.archive(db, org_id, input.id);
}
