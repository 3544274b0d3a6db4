import { z } from 'zod';
import { AppError } from '../../domain/errors';
import * as configs from '../../domain/gateways/configs';
import * as providerKeys from '../../domain/gateways/provider-keys';
import * as rights from '../../domain/people/rights';
import { ownKeyTrouble } from '../../gateway/config/kinds';
import * as answers from '../answers/provider-keys';
import * as shared from '../answers/shared';
import { actorOf, ownerOf, ownOrg, permission } from '../http/access';
import { id, listParts, priceFactor } from '../http/fields';
import { type Ctx, route } from '../http/route';

const billing = permission('org:billing');
const key = z
  .string()
  .regex(/^[\x21-\x7e]{8,500}$/, 'must be a key as its provider shows it: 8 to 500 characters')
  .describe('The key itself. It is sealed, and never shown again.');
const own_keys = z
  .enum(['only', 'first'])
  .describe(
    'What follows where the provider refuses the key. only: the call fails. first: the key of the platform serves.',
  );
const name = z.string().regex(/^[\w.-]{1,100}$/, 'must be letters, digits, hyphens and points');

const made = z.strictObject({
  org_id: id.optional(),
  provider: id.optional().describe('The provider in the price list. Needed for an own key.'),
  name: name.optional().describe('Of a key of the platform: how targets name it.'),
  key,
  price_factor: priceFactor
    .optional()
    .describe('The least that the organization may have if it is absent. 0: per_request alone.'),
  own_keys: own_keys.optional(),
});
const changed = z.strictObject({
  id,
  price_factor: priceFactor.optional(),
  own_keys: own_keys.optional(),
});
const rotated = z.strictObject({ id, key });
const listed = z.strictObject({ org_id: id.optional(), ...listParts() });
const one = z.strictObject({ id });

export const providerKeyRoutes = [
  route({
    method: 'post',
    path: '/v1/provider-keys',
    access: billing,
    input: made,
    handler: make,
    is_recorded: true,
    status: 201,
    summary:
      "Keep a key of a provider, sealed: the organization's own, by which its calls are served, or one of the platform.",
    answer: answers.providerKey,
  }),
  route({
    method: 'get',
    path: '/v1/provider-keys',
    access: billing,
    input: listed,
    handler: list,
    summary: 'The keys of providers, newest first; revoked ones too.',
    answer: shared.parts({ provider_keys: answers.providerKey }),
  }),
  route({
    method: 'put',
    path: '/v1/provider-keys/:id',
    access: billing,
    input: changed,
    handler: async (ctx: Ctx, { id: key_id, ...terms }: z.infer<typeof changed>) =>
      providerKeys.change(
        ctx.db,
        await named(ctx, key_id),
        terms,
        !rights.isPlatformAdmin(ctx.principal),
      ),
    is_recorded: true,
    summary: 'Change how an own key is charged, or what follows where it is refused.',
    answer: answers.providerKey,
  }),
  route({
    method: 'post',
    path: '/v1/provider-keys/:id/rotate',
    access: billing,
    input: rotated,
    handler: async (ctx: Ctx, given: z.infer<typeof rotated>) =>
      providerKeys.rotate(ctx.db, ctx.secrets, await named(ctx, given.id), given.key),
    is_recorded: true,
    summary: 'Put another value in the place of a key; calls that begin from now on use it.',
    answer: answers.providerKey,
  }),
  route({
    method: 'delete',
    path: '/v1/provider-keys/:id',
    access: billing,
    input: one,
    handler: async (ctx: Ctx, input) => providerKeys.revoke(ctx.db, await named(ctx, input.id)),
    is_recorded: true,
    summary: 'End a key: no call that begins from now on uses it.',
    answer: answers.providerKey,
  }),
];

/** A key that is to change, by its id: platform admins reach any. The organization is locked. */
async function named({ db, principal }: Ctx, key_id: string) {
  const org_id = ownOrg(principal);
  if (org_id !== null) await rights.lock(db, org_id, principal, 'org:billing');
  return { id: key_id, owner: org_id ?? undefined };
}

async function make(ctx: Ctx, { org_id: of_org, ...given }: z.infer<typeof made>) {
  const { db, principal, secrets } = ctx;
  const org_id = await ownerOf(ctx, of_org);
  const by = actorOf(principal);
  const { provider, name: called, key: value, ...terms } = given;
  if (org_id === null) {
    refuse(given, ['provider', 'price_factor', 'own_keys'], "says nothing of a platform's key");
    if (called === undefined) throw missing('name', 'Or name the organization: org_id.');
    return providerKeys.createOfPlatform(db, secrets, { name: called, key: value, by });
  }
  refuse(given, ['name'], 'is for keys of the platform alone');
  if (provider === undefined) throw missing('provider', 'Name the provider in the price list.');
  const is_bound = !rights.isPlatformAdmin(principal);
  await rights.lock(db, org_id, principal, 'org:billing');
  await requireOpened(db, provider);
  return providerKeys.create(db, secrets, { org_id, provider, key: value, terms, by, is_bound });
}

/** Refuses a provider that no own key opens, as far as the API knows who that is. */
async function requireOpened(db: Ctx['db'], provider: string): Promise<void> {
  const targets = (await configs.assigned(db)).flatMap(
    ({ providers }) => (providers as { targets?: unknown[] } | undefined)?.targets ?? [],
  );
  const trouble = ownKeyTrouble(provider, targets);
  if (trouble === undefined) return;
  throw new AppError(
    'invalid_field',
    `${trouble} Ask a platform admin for a target of its own, of another kind and provider (kind: compatible, with its base_url), and bring the key for that provider.`,
    { param: 'provider' },
  );
}

function missing(param: string, more: string): AppError {
  return new AppError('invalid_field', `${param} is missing. ${more}`, { param });
}

function refuse(given: object, members: readonly string[], why: string): void {
  const param = members.find((member) => (given as Record<string, unknown>)[member] !== undefined);
  if (param !== undefined)
    throw new AppError('invalid_field', `${param} ${why}. Leave it out.`, { param });
}

async function list(ctx: Ctx, { org_id: of_org, ...request }: z.infer<typeof listed>) {
  const { rows, ...rest } = await providerKeys.list(ctx.db, await ownerOf(ctx, of_org), request);
  return { provider_keys: rows, ...rest };
}
