import { z } from 'zod';
import { AppError } from '../../domain/errors';
import { requireKnown } from '../../domain/known';
import * as budgets from '../../domain/ledger/budgets';
import * as rights from '../../domain/people/rights';
import { permissions, platformPermissions } from '../../domain/people/roles';
import { requireTeamRank } from '../../domain/people/team-rights';
import * as tokenChanges from '../../domain/people/token-changes';
import * as tokenLists from '../../domain/people/token-lists';
import * as tokens from '../../domain/people/tokens';
import type { Db } from '../../domain/sql';
import * as answers from '../answers/people';
import * as shared from '../answers/shared';
import { actingOrg, type Principal, permission } from '../http/access';
import { amount, id, instant, listParts, name, search } from '../http/fields';
import { type Ctx, route } from '../http/route';
import {
  allowedModels,
  budgetWindow,
  gatewayFields,
  includeCost,
  keyName,
  overlapSeconds,
  ownLimits,
  requireBudget,
  requireFuture,
  status,
} from './token-fields';

const type = z.enum(['access', 'gateway']);
const newToken = z.strictObject({
  org_id: id.optional(),
  name: keyName,
  token_type: type,
  scopes: z.array(z.enum(permissions)).default([]),
  allowed_models: allowedModels,
  user_id: id.nullish(),
  team_id: id.nullish(),
  agent_id: id.nullish(),
  max_budget: amount('max_budget').nullish(),
  budget_window: budgetWindow,
  ...ownLimits,
  include_cost: includeCost,
  expires_at: instant.nullish(),
});
const listQuery = z.strictObject({
  org_id: id.optional(),
  q: search,
  type: type.optional(),
  status: status.optional(),
  user_id: id.optional().describe('Only the keys that stand for this person.'),
  team_id: id.optional().describe('Only the keys of this team.'),
  agent_id: id.optional().describe('Only the keys of this agent.'),
  created_by: id.optional().describe('Only the keys that this person made.'),
  expires_before: instant.optional().describe('Only keys that end before this time.'),
  model: id.optional().describe('Only gateway keys that may call this model.'),
  ...listParts('name', 'expires_at'),
});
const changes = z.strictObject({
  org_id: id.optional(),
  named: name,
  name: keyName.optional(),
  allowed_models: allowedModels,
  max_budget: amount('max_budget').nullish(),
  budget_window: budgetWindow,
  ...ownLimits,
  include_cost: includeCost,
  expires_at: instant.nullish(),
});
const byName = z.strictObject({ org_id: id.optional(), name });
const rotation = z.strictObject({
  org_id: id.optional(),
  name,
  overlap_seconds: overlapSeconds,
});

const write = permission('tokens:write');

export const tokenRoutes = [
  route({
    method: 'post',
    path: '/v1/tokens',
    access: write,
    input: newToken,
    handler: issue,
    is_recorded: true,
    summary: 'Issue a key. Its value is shown in this answer only.',
    status: 201,
    answer: answers.issuedToken,
  }),
  route({
    method: 'get',
    path: '/v1/tokens',
    access: write,
    input: listQuery,
    handler: list,
    summary: 'Keys, newest first.',
    answer: shared.parts({ tokens: answers.token }),
  }),
  route({
    method: 'get',
    path: '/v1/tokens/:name',
    access: write,
    input: byName,
    handler: find,
    summary: 'A key by name.',
    answer: answers.token,
  }),
  route({
    method: 'patch',
    path: '/v1/tokens/:name',
    access: write,
    input: changes,
    path_names: { name: 'named' },
    handler: change,
    is_recorded: true,
    summary:
      'Change a living key: what is absent stays. Gateways see other models and limits within 30 seconds.',
    answer: answers.token,
  }),
  route({
    method: 'delete',
    path: '/v1/tokens/:name',
    access: write,
    input: byName,
    handler: revoke,
    is_recorded: true,
    summary: 'Revoke a key at once; calls in flight finish.',
    answer: answers.token,
  }),
  route({
    method: 'post',
    path: '/v1/tokens/:name/rotate',
    access: write,
    input: rotation,
    handler: rotate,
    is_recorded: true,
    summary: 'A new value for the same key; the old one works for overlap_seconds.',
    status: 201,
    answer: answers.issuedToken,
  }),
];

async function issue({ db, principal }: Ctx, input: z.infer<typeof newToken>) {
  const org_id = await tokenOrg(db, principal, input);
  const caller = await asNow(db, principal, org_id);
  checkScopes(caller, input, org_id);
  requireFuture(input.expires_at);
  const token = {
    org_id,
    name: input.name,
    token_type: input.token_type,
    scopes: input.scopes,
    allowed_models: input.allowed_models ?? null,
    user_id: input.user_id ?? null,
    team_id: input.team_id ?? null,
    agent_id: input.agent_id ?? null,
    max_budget_nanos: input.max_budget ?? null,
    rpm: input.rpm,
    tpm: input.tpm,
    max_parallel_requests: input.max_parallel_requests,
    include_cost: input.include_cost,
    expires_at: input.expires_at ?? null,
    created_by: principal.id,
  };
  requireBudget(input.budget_window, token.max_budget_nanos);
  const made = await tokens.issue(db, token, caller);
  if (!input.budget_window || org_id === null) return made;
  const { max_budget_nanos } = token;
  const window = input.budget_window;
  await budgets.setOfKey(db, { org_id, key_id: made.id }, { max_budget_nanos, window });
  return { ...(await tokens.get(db, org_id, made.id)), key: made.key };
}

async function list({ db, principal }: Ctx, input: z.infer<typeof listQuery>) {
  const { org_id, page, per_page, as_of, cursor, sort, ...filter } = input;
  const request = { page, per_page, as_of, cursor, sort };
  const of = await readOrg(db, principal, org_id);
  const { user_id, team_id, agent_id } = filter;
  await requireKnown(db, of, { user_id, team_id, agent_id });
  const { rows, ...rest } = await tokenLists.list(db, of, filter, request);
  return { tokens: rows, ...rest };
}

async function find({ db, principal }: Ctx, input: z.infer<typeof byName>) {
  return tokens.find(db, await readOrg(db, principal, input.org_id), input.name);
}

async function change(
  { db, principal }: Ctx,
  { org_id: named_org, named, max_budget, budget_window, ...wanted }: z.infer<typeof changes>,
) {
  const org_id = await readOrg(db, principal, named_org);
  const caller = await asNow(db, principal, org_id);
  const token = await tokens.find(db, org_id, named);
  if (token.id === principal.id || (await tokenChanges.isMadeWith(db, principal.id, token.id)))
    throw new AppError('permission_denied', 'A key never changes itself. Use another one.', {
      param: 'name',
    });
  await rights.requireChangeable(db, { org_id, caller }, token, 'change it');
  const param = gatewayFields.find(
    (field) => ({ ...wanted, max_budget, budget_window })[field] != null,
  );
  if (param && token.token_type === 'access')
    throw new AppError('invalid_field', `${param} is for gateway keys.`, { param });
  requireFuture(wanted.expires_at);
  // One that lives longer is as good as a new one.
  if (org_id !== null && tokenChanges.isLonger(token, wanted))
    rights.requirePerson(caller, token, 'name');
  const changed = await tokenChanges.change(db, org_id, token, wanted);
  if (org_id === null || (max_budget === undefined && budget_window === undefined)) return changed;
  const max_budget_nanos = max_budget === undefined ? token.max_budget_nanos : max_budget;
  const window = budget_window === undefined ? token.budget_window : budget_window;
  requireBudget(budget_window, max_budget_nanos);
  await budgets.setOfKey(db, { org_id, key_id: token.id }, { max_budget_nanos, window });
  return tokens.get(db, org_id, token.id);
}

async function revoke({ db, principal }: Ctx, input: z.infer<typeof byName>) {
  const org_id = await readOrg(db, principal, input.org_id);
  const caller = await asNow(db, principal, org_id);
  const token = await tokens.find(db, org_id, input.name);
  await rights.requireChangeable(db, { org_id, caller }, token);
  return tokens.revoke(db, org_id, token);
}

async function rotate({ db, principal }: Ctx, input: z.infer<typeof rotation>) {
  const org_id = await readOrg(db, principal, input.org_id);
  const caller = await asNow(db, principal, org_id);
  const token = await tokens.find(db, org_id, input.name);
  // The answer holds a working key, so it is as good as a new one with these scopes.
  await rights.requireChangeable(db, { org_id, caller }, token);
  if (org_id !== null) rights.requirePerson(caller, token, 'name');
  const { user_id, token_type } = token;
  if (org_id !== null && user_id !== null && token_type === 'access')
    await requireTeamRank(db, { org_id, user_id, caller }, 'name');
  const key = await tokens.rotate(db, token, input.overlap_seconds);
  return { ...(await tokens.get(db, org_id, token.id)), key };
}

/** The caller with what they may do in the organization by now, which is locked. */
async function asNow(db: Db, principal: Principal, org_id: string | null): Promise<Principal> {
  return org_id === null ? principal : rights.lock(db, org_id, principal, 'tokens:write');
}

/**
 * A platform admin's keys without an organization are platform keys: listed and changed by naming
 * none.
 */
async function readOrg(
  db: Db,
  principal: Principal,
  org_id: string | undefined,
): Promise<string | null> {
  if (rights.isPlatformAdmin(principal) && principal.org_id === null && org_id === undefined)
    return null;
  return actingOrg(db, principal, org_id);
}

/** The organization of a new key; none for the scopes that belong to the platform. */
async function tokenOrg(
  db: Db,
  principal: Principal,
  input: z.infer<typeof newToken>,
): Promise<string | null> {
  const isPlatformKey = input.scopes.some((scope) => platformPermissions.includes(scope));
  if (isPlatformKey && rights.isPlatformAdmin(principal) && input.org_id === undefined) return null;
  return actingOrg(db, principal, input.org_id);
}

function checkScopes(
  principal: Principal,
  input: z.infer<typeof newToken>,
  org_id: string | null,
): void {
  if (input.token_type === 'gateway' && input.scopes.length > 0) {
    throw new AppError('invalid_field', 'Gateway keys carry no scopes.', { param: 'scopes' });
  }
  if (input.token_type === 'gateway') return;
  const param = gatewayFields.find((field) => input[field] != null);
  if (param) throw new AppError('invalid_field', `${param} is for gateway keys.`, { param });
  const platform = input.scopes.find((scope) => platformPermissions.includes(scope));
  if (platform && org_id !== null) {
    throw new AppError(
      'permission_denied',
      `${platform} belongs to platform keys, which name no organization.`,
      { param: 'scopes' },
    );
  }
  const ofOrganization = input.scopes.find((scope) => !platformPermissions.includes(scope));
  if (ofOrganization && input.scopes.includes('control_plane')) {
    throw new AppError(
      'invalid_field',
      `control_plane stands for gateways and goes with no scope of people such as ${ofOrganization}. Make a key for each.`,
      { param: 'scopes' },
    );
  }
  rights.requireScopes(principal, input.scopes, 'scopes');
}
