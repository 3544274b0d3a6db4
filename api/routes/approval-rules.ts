import { z } from 'zod';
import * as rules from '../../domain/ledger/approval-rules';
import * as walletSettings from '../../domain/ledger/wallet-settings';
import { lock } from '../../domain/people/rights';
import * as answers from '../answers/budgets';
import * as shared from '../answers/shared';
import { actingOrg, actorOf, ownOrg, permission } from '../http/access';
import { currency, id, name, page, positiveAmount } from '../http/fields';
import { once } from '../http/idempotency';
import { type Ctx, route } from '../http/route';

const fields = {
  name,
  team_id: id.nullable(),
  max_per_call: positiveAmount('max_per_call'),
  max_per_day: positiveAmount('max_per_day'),
  source: z.enum(['team', 'organization']),
};
const listed = z.strictObject({ org_id: id.optional(), ...page });
const one = z.strictObject({ id });
const created = z.strictObject({
  org_id: id.optional(),
  currency: currency.optional(),
  ...fields,
  team_id: fields.team_id.default(null),
  source: fields.source.default('organization'),
});
const changed = z.strictObject({ id, ...z.object(fields).partial().shape });

const billing = permission('org:billing');
const root = '/v1/approval-rules';

export const approvalRuleRoutes = [
  route({
    method: 'get',
    path: root,
    access: billing,
    input: listed,
    handler: list,
    summary: 'Rules by which cost tickets are approved, newest first.',
    answer: shared.list({ approval_rules: answers.approvalRule }),
  }),
  route({
    method: 'post',
    path: root,
    access: billing,
    input: created,
    handler: create,
    is_idempotent: true,
    is_recorded: true,
    is_run_once: true,
    summary: 'Approve calls up to a cost, and up to a sum a day, without a person.',
    status: 201,
    answer: answers.approvalRule,
  }),
  route({
    method: 'put',
    path: `${root}/:id`,
    access: billing,
    input: changed,
    handler: change,
    is_recorded: true,
    summary: 'Change the given fields of an approval rule.',
    answer: answers.approvalRule,
  }),
  route({
    method: 'delete',
    path: `${root}/:id`,
    access: billing,
    input: one,
    handler: remove,
    is_recorded: true,
    summary: 'Take an approval rule away.',
    answer: shared.nothing,
  }),
];

async function list({ db, principal }: Ctx, { org_id, ...rest }: z.infer<typeof listed>) {
  const acting = await actingOrg(db, principal, org_id);
  const { rows, ...envelope } = await rules.list(db, acting, rest);
  return { approval_rules: rows, ...envelope };
}

async function create(ctx: Ctx, given: z.infer<typeof created>) {
  const { principal } = ctx;
  const org_id = await actingOrg(ctx.db, principal, given.org_id);
  return once(ctx, org_id, async (db) => {
    await lock(db, org_id, principal, 'org:billing');
    await walletSettings.requireCurrency(db, org_id, given.currency);
    return rules.create(db, {
      org_id,
      name: given.name,
      team_id: given.team_id,
      max_per_call_nanos: given.max_per_call,
      max_per_day_nanos: given.max_per_day,
      source: given.source,
      created_by: actorOf(principal),
    });
  });
}

async function change({ db, principal }: Ctx, input: z.infer<typeof changed>) {
  const { id: rule_id, max_per_call, max_per_day, ...rest } = input;
  const org_id = await rules.orgOf(db, rule_id, ownOrg(principal));
  await lock(db, org_id, principal, 'org:billing');
  const amounts = { max_per_call_nanos: max_per_call, max_per_day_nanos: max_per_day };
  return rules.update(db, org_id, rule_id, { ...rest, ...amounts });
}

async function remove({ db, principal }: Ctx, input: z.infer<typeof one>) {
  const org_id = await rules.orgOf(db, input.id, ownOrg(principal));
  await lock(db, org_id, principal, 'org:billing');
  await rules.archive(db, org_id, input.id);
}
