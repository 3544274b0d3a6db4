import { z } from 'zod';
import { AppError } from '../../domain/errors';
import { requireKnown } from '../../domain/known';
import * as budgets from '../../domain/ledger/budgets';
import * as memberKeys from '../../domain/people/member-keys';
import * as rights from '../../domain/people/rights';
import * as teams from '../../domain/people/teams';
import * as tokenChanges from '../../domain/people/token-changes';
import * as tokenLists from '../../domain/people/token-lists';
import * as tokens from '../../domain/people/tokens';
import * as answers from '../answers/people';
import * as shared from '../answers/shared';
import { actingOrg, member, type Principal, permission } from '../http/access';
import { id, instant, listParts, name, positiveAmount, search } from '../http/fields';
import { type Ctx, route } from '../http/route';
import {
  allowedModels,
  budgetWindow,
  includeCost,
  keyName,
  overlapSeconds,
  requireBudget,
  requireFuture,
  status,
} from './token-fields';

const bounds = {
  allowed_models: allowedModels.describe(
    'The models that it may call; a star at the end stands for any end (gpt-4o*). null or absent: those that your organization allows; []: none.',
  ),
  max_budget: positiveAmount('max_budget')
    .nullish()
    .describe(
      'What it may spend, holds included: in budget_window or, without one, in its life. null or absent: as much as your organization allows.',
    ),
  budget_window: budgetWindow,
  expires_at: instant.nullish(),
  include_cost: includeCost,
};
const newKey = z.strictObject({ name: keyName, team_id: id.nullish(), ...bounds });
const listed = z.strictObject({
  q: search,
  status: status.optional(),
  team_id: id.optional(),
  ...listParts('name', 'expires_at'),
});
const one = z.strictObject({ name });
const changed = z.strictObject({ named: name, name: keyName.optional(), ...bounds });
const rotation = z.strictObject({ name, overlap_seconds: overlapSeconds });
const settingsOf = z.strictObject({ id });
const newSettings = settingsOf.extend({
  enabled: z.boolean().describe('Members may make keys for themselves.'),
  max_keys: z.int().min(1).max(1_000).default(5),
  max_budget: positiveAmount('max_budget')
    .nullable()
    .default(null)
    .describe('The most that a key of theirs may spend; null: it needs no budget.'),
  budget_window: budgetWindow.describe(
    'The window of max_budget, for keys of theirs; without it, or life, the key in its life.',
  ),
  allowed_models: allowedModels
    .default(null)
    .describe('The models that keys of theirs may call; null: every one.'),
  max_days: z.int().min(1).max(3_650).nullable().default(null),
});

const root = '/v1/me/keys';
const settings = '/v1/organizations/:id/member-keys';

export const meKeyRoutes = [
  route({
    method: 'get',
    path: settings,
    access: member,
    input: settingsOf,
    handler: getSettings,
    summary: 'Whether members may make keys for themselves, and within which limits.',
    answer: answers.memberKeySettings,
  }),
  route({
    method: 'put',
    path: settings,
    access: permission('tokens:write'),
    input: newSettings,
    handler: putSettings,
    is_recorded: true,
    summary: 'Let members make keys for themselves, or stop that; keys that they have stay.',
    answer: answers.memberKeySettings,
  }),
  route({
    method: 'post',
    path: root,
    access: member,
    input: newKey,
    handler: issue,
    is_recorded: true,
    summary: 'Make a gateway key for yourself, within what your organization allows.',
    status: 201,
    answer: answers.issuedToken,
  }),
  route({
    method: 'get',
    path: root,
    access: member,
    input: listed,
    handler: list,
    summary: 'The gateway keys that stand for you.',
    answer: shared.parts({ tokens: answers.token }),
  }),
  route({
    method: 'get',
    path: `${root}/:name`,
    access: member,
    input: one,
    handler: find,
    summary: 'A gateway key of yours by name.',
    answer: answers.token,
  }),
  route({
    method: 'patch',
    path: `${root}/:name`,
    access: member,
    input: changed,
    path_names: { name: 'named' },
    handler: change,
    is_recorded: true,
    summary:
      'Change a gateway key that you made; its budget, models and time may only become less.',
    answer: answers.token,
  }),
  route({
    method: 'delete',
    path: `${root}/:name`,
    access: member,
    input: one,
    handler: revoke,
    is_recorded: true,
    summary: 'Revoke a gateway key that stands for you; calls in flight finish.',
    answer: answers.token,
  }),
  route({
    method: 'post',
    path: `${root}/:name/rotate`,
    access: member,
    input: rotation,
    handler: rotate,
    is_recorded: true,
    summary: 'A new value for a gateway key that you made; the old one works for overlap_seconds.',
    status: 201,
    answer: answers.issuedToken,
  }),
];

async function getSettings({ db, principal }: Ctx, input: z.infer<typeof settingsOf>) {
  return memberKeys.settings(db, await actingOrg(db, principal, input.id));
}

async function putSettings(
  { db, principal }: Ctx,
  { id: named_id, max_budget, budget_window: window = null, ...given }: z.infer<typeof newSettings>,
) {
  const org_id = await actingOrg(db, principal, named_id);
  await rights.lock(db, org_id, principal, 'tokens:write');
  const { allowed_models = null } = given;
  return memberKeys.putSettings(db, org_id, {
    ...given,
    allowed_models,
    max_budget_nanos: max_budget,
    budget_window: window === 'life' ? null : window,
  });
}

/** A person, and the organization that they act in. */
interface Person {
  org_id: string;
  user_id: string;
}

/** The person who calls; 403 for a key that stands for nobody. */
function personOf({ org_id, user_id }: Principal): Person {
  if (org_id !== null && user_id !== null) return { org_id, user_id };
  throw new AppError(
    'permission_denied',
    'This credential stands for no person, so it has no keys of its own. Use POST /v1/tokens.',
  );
}

async function issue(
  { db, principal }: Ctx,
  { name: key_name, team_id, max_budget, include_cost, ...asked }: z.infer<typeof newKey>,
) {
  const person = personOf(principal);
  const caller = await rights.lockAsNow(db, person.org_id, principal);
  const allowed = await memberKeys.settings(db, person.org_id);
  memberKeys.requireEnabled(allowed);
  await memberKeys.requireRoom(db, person, allowed);
  requireFuture(asked.expires_at);
  const { budget_window, ...bounds } = memberKeys.within(allowed, {
    ...asked,
    max_budget_nanos: max_budget,
  });
  requireBudget(budget_window, bounds.max_budget_nanos);
  await requireKnown(db, person.org_id, { team_id: team_id ?? undefined });
  if (team_id && !(await teams.includes(db, { ...person, team_id })))
    throw new AppError(
      'invalid_field',
      'You are not in this team. Leave out team_id, or ask an admin of the team to take you in.',
      { param: 'team_id' },
    );
  const token = {
    ...person,
    name: key_name,
    token_type: 'gateway' as const,
    scopes: [],
    team_id: team_id ?? null,
    agent_id: null,
    created_by: principal.id,
    include_cost,
    ...bounds,
  };
  const made = await tokens.issue(db, token, caller, null);
  if (budget_window === null) return made;
  await budgets.setOfKey(
    db,
    { org_id: person.org_id, key_id: made.id },
    { max_budget_nanos: bounds.max_budget_nanos, window: budget_window },
  );
  return { ...(await tokens.get(db, person.org_id, made.id)), key: made.key };
}

async function list({ db, principal }: Ctx, input: z.infer<typeof listed>) {
  const { org_id, user_id } = personOf(principal);
  const { page, per_page, as_of, cursor, sort, ...filter } = input;
  await requireKnown(db, org_id, { team_id: filter.team_id });
  const { rows, ...rest } = await tokenLists.list(
    db,
    org_id,
    { ...filter, type: 'gateway', user_id },
    { page, per_page, as_of, cursor, sort },
  );
  return { tokens: rows, ...rest };
}

function find({ db, principal }: Ctx, input: z.infer<typeof one>) {
  return tokens.findOwn(db, personOf(principal), input.name);
}

async function change(
  { db, principal }: Ctx,
  { named, name: new_name, max_budget, include_cost, ...asked }: z.infer<typeof changed>,
) {
  const person = personOf(principal);
  await rights.lockAsNow(db, person.org_id, principal);
  const { allowed, token } = await memberKeys.ownMade(db, person, named);
  requireFuture(asked.expires_at);
  const { expires_at, allowed_models } = asked;
  // Only what is asked for is changed, and only to what a new key could have.
  const wanted = { ...asked, max_budget_nanos: max_budget };
  const bound = memberKeys.within(allowed, wanted);
  memberKeys.requireLess(token, wanted, bound);
  const made = await tokenChanges.change(db, person.org_id, token, {
    name: new_name,
    of: person.user_id,
    include_cost,
    ...(allowed_models === undefined ? {} : { allowed_models: bound.allowed_models }),
    ...(expires_at === undefined ? {} : { expires_at: bound.expires_at }),
  });
  if (max_budget === undefined && asked.budget_window === undefined) return made;
  const { max_budget_nanos } = max_budget === undefined ? token : bound;
  const { budget_window } = asked.budget_window === undefined ? token : bound;
  requireBudget(asked.budget_window, max_budget_nanos);
  await budgets.setOfKey(
    db,
    { org_id: person.org_id, key_id: token.id },
    { max_budget_nanos, window: budget_window },
  );
  return tokens.get(db, person.org_id, token.id);
}

async function revoke({ db, principal }: Ctx, input: z.infer<typeof one>) {
  const person = personOf(principal);
  await rights.lockAsNow(db, person.org_id, principal);
  const token = await tokens.findOwn(db, person, input.name);
  return tokens.revoke(db, person.org_id, token);
}

async function rotate({ db, principal }: Ctx, input: z.infer<typeof rotation>) {
  const person = personOf(principal);
  await rights.lockAsNow(db, person.org_id, principal);
  const { token } = await memberKeys.ownMade(db, person, input.name);
  const key = await tokens.rotate(db, token, input.overlap_seconds);
  return { ...(await tokens.get(db, person.org_id, token.id)), key };
}
