import { z } from 'zod';
import * as constraints from '../../domain/ledger/constraints';
import * as rights from '../../domain/people/rights';
import * as answers from '../answers/money';
import * as shared from '../answers/shared';
import { controlPlane, ownOrg, permission } from '../http/access';
import { amount, id } from '../http/fields';
import { once } from '../http/idempotency';
import { type Ctx, route } from '../http/route';

const MAX_VALUE = 9_000_000_000;
const RESPONSES_MAX = 1_000_000;

const pattern = id.regex(/^[^*]*\*?$/, 'may hold one *, at its end');
const fields = {
  constraint_type: z.enum(['cost', 'responses']),
  provider: id,
  model_pattern: pattern,
  max_value: z.number().min(0).max(MAX_VALUE),
  interval: z.enum(['hour', 'day', 'week', 'month']),
  enforcement_mode: z.enum(['reject', 'warn']),
};
const ofAgent = z.strictObject({ id });
const created = z.strictObject({ id, ...fields });
const one = z.strictObject({ id, cid: id });
const changed = z.strictObject({ id, cid: id, ...z.object(fields).partial().shape });
const checked = z.strictObject({
  id,
  provider: id,
  model: id,
  // Query values are text.
  estimated_cost: z
    .string()
    .regex(
      /^(0|[1-9]\d{0,20})(\.\d{1,40})?([eE][+-]?\d{1,3})?$/,
      'must be a JSON number that is not negative, such as 0.05 or 1.5e-7',
    )
    .transform(Number)
    .pipe(amount('estimated_cost'))
    .optional(),
});
const counted = z.strictObject({
  id,
  provider: id,
  model: id,
  cost: amount('cost').default(0n),
  responses: z.int().min(0).max(RESPONSES_MAX).default(1),
  request_id: id,
});

const reading = permission('agents:read');
const writing = permission('agents:write');
const root = '/v1/agents/:id/usage-constraints';

export const constraintRoutes = [
  route({
    method: 'get',
    path: root,
    access: reading,
    input: ofAgent,
    handler: list,
    summary: "An agent's usage constraints, as they stand in their windows.",
    answer: answers.constraints,
  }),
  route({
    method: 'post',
    path: root,
    access: writing,
    input: created,
    handler: create,
    is_idempotent: true,
    is_recorded: true,
    is_run_once: true,
    summary: 'Cap what an agent may cost or answer in an interval. The present window counts.',
    status: 201,
    answer: answers.constraint,
  }),
  route({
    method: 'put',
    path: `${root}/:cid`,
    access: writing,
    input: changed,
    handler: update,
    is_recorded: true,
    summary: 'Change the given fields of a usage constraint.',
    answer: answers.constraint,
  }),
  route({
    method: 'delete',
    path: `${root}/:cid`,
    access: writing,
    input: one,
    handler: remove,
    is_recorded: true,
    summary: 'Take a usage constraint away.',
    answer: shared.nothing,
  }),
  route({
    method: 'get',
    path: '/v1/gateway/agents/:id/usage-check',
    access: controlPlane,
    input: checked,
    handler: check,
    summary: "Whether an agent's constraints let one more request of this cost pass.",
    answer: answers.standings,
  }),
  route({
    method: 'post',
    path: '/v1/gateway/agents/:id/usage-increment',
    access: controlPlane,
    input: counted,
    handler: increment,
    summary: 'Count use that no reserve has seen, once per request_id.',
    answer: answers.standings,
  }),
];

async function list({ db, principal }: Ctx, input: z.infer<typeof ofAgent>) {
  await constraints.orgOfAgent(db, input.id, ownOrg(principal));
  return { usage_constraints: await constraints.listStanding(db, input.id) };
}

async function create(ctx: Ctx, { id: agent_id, ...given }: z.infer<typeof created>) {
  const org_id = await constraints.orgOfAgent(ctx.db, agent_id, ownOrg(ctx.principal));
  return once(ctx, org_id, async (db) => {
    await lockedOrg({ ...ctx, db }, agent_id);
    return constraints.create(db, { org_id, agent_id }, given);
  });
}

/** The organization of an agent, locked, in which the caller may still change caps. */
async function lockedOrg({ db, principal }: Pick<Ctx, 'db' | 'principal'>, agent_id: string) {
  const org_id = await constraints.orgOfAgent(db, agent_id, ownOrg(principal));
  await rights.lock(db, org_id, principal, 'agents:write');
  // It may have been archived while that was waited for.
  return constraints.orgOfAgent(db, agent_id, org_id);
}

async function update(ctx: Ctx, { id: agent_id, cid, ...given }: z.infer<typeof changed>) {
  const { db } = ctx;
  const org_id = await lockedOrg(ctx, agent_id);
  return constraints.update(db, { org_id, agent_id, id: cid }, given);
}

async function remove(ctx: Ctx, { id: agent_id, cid }: z.infer<typeof one>) {
  const { db } = ctx;
  const org_id = await lockedOrg(ctx, agent_id);
  await constraints.archive(db, { org_id, agent_id, id: cid });
}

async function check({ db }: Ctx, { id: agent_id, ...asked }: z.infer<typeof checked>) {
  await constraints.orgOfAgent(db, agent_id, null);
  const { estimated_cost: estimated_cost_nanos, ...rest } = asked;
  return constraints.check(db, agent_id, { ...rest, estimated_cost_nanos });
}

async function increment({ db }: Ctx, { id: agent_id, cost, ...use }: z.infer<typeof counted>) {
  const org_id = await constraints.orgOfAgent(db, agent_id, null);
  await constraints.increment(db, { ...use, org_id, agent_id, cost_nanos: cost });
  return constraints.check(db, agent_id, use);
}
