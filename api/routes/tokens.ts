import { z } from 'zod';
import { AppError } from '../../domain/errors';
import * as budgets from '../../domain/ledger/budgets';
import * as rights from '../../domain/people/rights';
import { permissions, platformPermissions } from '../../domain/people/roles';
import * as tokens from '../../domain/people/tokens';
import type { Db } from '../../domain/sql';
import * as answers from '../answers/people';
import * as shared from '../answers/shared';
import { actingOrg, type Principal, permission } from '../http/access';
import { amount, id, instant, name, page } from '../http/fields';
import { type Ctx, route } from '../http/route';

const type = z.enum(['access', 'gateway']);
// A star stands for any end of a name; in another place it would match nothing.
const allowedModel = id.refine((one) => !one.slice(0, -1).includes('*'), {
  error: 'may have a star at its end only',
});
/**
 * A name that an address can carry: `.` and `..` are steps within an address for every client of
 * the web, in these spellings too.
 */
const keyName = name.refine(
  (given) => !/^(\.|%2e){1,2}$/i.test(given),
  'may not be . or .., which no address can carry as a name',
);

const newToken = z.strictObject({
  org_id: id.optional(),
  name: keyName,
  token_type: type,
  scopes: z.array(z.enum(permissions)).default([]),
  allowed_models: z.array(allowedModel).max(1_000).nullish(),
  user_id: id.nullish(),
  team_id: id.nullish(),
  agent_id: id.nullish(),
  max_budget: amount('max_budget').nullish(),
  budget_window: z.enum(['hour', 'day', 'week', 'month', 'life']).nullish(),
  expires_at: instant.nullish(),
});
const listQuery = z.strictObject({
  org_id: id.optional(),
  type: type.optional(),
  created_by: id.optional().describe('Only the keys that this person made.'),
  ...page,
});
const byName = z.strictObject({ org_id: id.optional(), name });
const rotation = z.strictObject({
  org_id: id.optional(),
  name,
  overlap_seconds: z.int().min(0).max(2_592_000).default(0),
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
    answer: shared.list({ tokens: answers.token }),
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
  if (input.budget_window && input.max_budget == null)
    throw new AppError('invalid_field', 'budget_window needs a max_budget.', {
      param: 'budget_window',
    });
  const isPast = input.expires_at && input.expires_at.getTime() <= Date.now();
  if (isPast)
    throw new AppError('invalid_field', 'expires_at must be in the future.', {
      param: 'expires_at',
    });
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
    expires_at: input.expires_at ?? null,
    created_by: principal.id,
  };
  const made = await tokens.issue(db, token, caller);
  const { max_budget_nanos } = token;
  const { budget_window: window = null } = input;
  if (window === null || window === 'life' || org_id === null) return made;
  await budgets.setOfKey(db, { org_id, key_id: made.id }, { max_budget_nanos, window });
  return { ...(await tokens.find(db, org_id, made.name)), key: made.key };
}

async function list({ db, principal }: Ctx, { org_id, ...filter }: z.infer<typeof listQuery>) {
  const { rows, ...rest } = await tokens.list(db, await readOrg(db, principal, org_id), filter);
  return { tokens: rows, ...rest };
}

async function find({ db, principal }: Ctx, input: z.infer<typeof byName>) {
  return tokens.find(db, await readOrg(db, principal, input.org_id), input.name);
}

async function revoke({ db, principal }: Ctx, input: z.infer<typeof byName>) {
  const org_id = await readOrg(db, principal, input.org_id);
  const caller = await asNow(db, principal, org_id);
  const token = await tokens.find(db, org_id, input.name);
  await rights.requireChangeable(db, { org_id, caller }, token);
  return tokens.revoke(db, org_id, input.name);
}

async function rotate({ db, principal }: Ctx, input: z.infer<typeof rotation>) {
  const org_id = await readOrg(db, principal, input.org_id);
  const caller = await asNow(db, principal, org_id);
  const token = await tokens.find(db, org_id, input.name);
  // The answer holds a working key, so it is as good as a new one with these scopes.
  await rights.requireChangeable(db, { org_id, caller }, token);
  const key = await tokens.rotate(db, token, input.overlap_seconds);
  return { ...(await tokens.find(db, org_id, input.name)), key };
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
  const param = (['allowed_models', 'max_budget', 'budget_window'] as const).find(
    (field) => input[field] != null,
  );
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
