import { z } from 'zod';
import { AppError } from '../../domain/errors';
import * as groupGrants from '../../domain/people/group-grants';
import * as issuers from '../../domain/people/issuers';
import { owner_of } from '../../domain/sealed';
import { type Db, withRetry } from '../../domain/sql';
import { isLoopback } from '../../domain/texts';
import { isClosed } from '../../runtime/outgoing';
import * as answers from '../answers/identity';
import * as shared from '../answers/shared';
import { actingOrg, open, platformAdmin } from '../http/access';
import { inName } from '../http/acting';
import { id, ledgerPage, listParts, name, search } from '../http/fields';
import { type Ctx, route } from '../http/route';

/** An address over https, or over http on this machine. */
const address = z
  // Aborted, as what follows reads the address.
  .url({ protocol: /^https?$/, abort: true, error: 'must be an address that begins with https://' })
  .max(1_000)
  .refine(
    (text) => text.startsWith('https:') || isLoopback(new URL(text).hostname),
    'must begin with https://; http:// only on this machine',
  )
  .refine(
    (text) => !isClosed(new URL(text).hostname),
    'names a link-local or metadata address, to which nothing is sent',
  );
const domain = z
  .string()
  .trim()
  .toLowerCase()
  .regex(/^[a-z0-9-]+(\.[a-z0-9-]+)+$/, 'must be a domain such as example.com');
const grant = z
  .strictObject({
    group: z.string().min(1).max(500),
    team_id: id.nullable().default(null),
    team_role: z.enum(['member', 'admin']).nullable().default(null),
    role: z
      .enum(['admin', 'billing_admin', 'member'], {
        error: 'must be admin, billing_admin or member: no group makes owners',
      })
      .nullable()
      .default(null),
  })
  .refine(({ team_id, team_role }) => team_role === null || team_id !== null, {
    path: ['team_id'],
    message: 'is needed with team_role',
  });

const fields = {
  name,
  issuer: address,
  client_id: z.string().min(1).max(500),
  client_secret: z.string().min(1).max(1_000).nullish(),
  jwks_url: address,
  authorization_url: address.nullish(),
  token_url: address.nullish(),
  subject: z
    .enum(['user_id', 'bound'])
    .optional()
    .describe('How sub is read: as the id of a user here, or by what it was bound to.'),
  email_domains: z.array(domain).max(100).optional(),
  groups_claim: z.string().min(1).max(200).nullish(),
  group_grants: z.array(grant).max(1_000).optional(),
};
const newIssuer = z.strictObject({ org_id: id.nullish(), ...fields });
const changedIssuer = z.strictObject({ id, ...z.strictObject(fields).partial().shape });
const one = z.strictObject({ id });
const CHOICES_MAX = 200;
const choice = z.strictObject({
  id: id.optional().describe('Only the one with this id.'),
  q: search.describe('Words of the name or the address of an identity provider.'),
  ...ledgerPage,
  per_page: ledgerPage.per_page.default(CHOICES_MAX),
});
const listed = z.strictObject({
  q: search.describe('Words of the name or the address of an identity provider.'),
  ...listParts('name'),
});
const root = '/v1/admin/issuers';

export const issuerRoutes = [
  route({
    method: 'get',
    path: '/v1/issuers',
    access: open,
    input: choice,
    handler: listChoices,
    summary: 'The identity providers that people may sign in by, by name, for a page of sign-in.',
    answer: shared.list({ issuers: answers.issuerChoice }),
  }),
  route({
    method: 'get',
    path: root,
    access: platformAdmin,
    input: listed,
    handler: list,
    summary: 'The identity providers, with how their people are matched.',
    answer: shared.parts({ issuers: answers.issuer }),
  }),
  route({
    method: 'post',
    path: root,
    access: platformAdmin,
    input: newIssuer,
    handler: create,
    is_recorded: true,
    is_large: true,
    summary: 'Let the people of an identity provider sign in.',
    status: 201,
    answer: answers.issuer,
  }),
  route({
    method: 'put',
    path: `${root}/:id`,
    access: platformAdmin,
    input: changedIssuer,
    handler: update,
    is_recorded: true,
    is_run_once: true,
    is_large: true,
    summary: 'Change what is given of an identity provider; what is bound stays bound.',
    answer: answers.issuer,
  }),
  route({
    method: 'delete',
    path: `${root}/:id`,
    access: platformAdmin,
    input: one,
    handler: archive,
    is_recorded: true,
    is_run_once: true,
    summary:
      'Take an identity provider out: its sessions end, and what its groups gave goes with its keys.',
    answer: shared.nothing,
  }),
];

async function listChoices({ db }: Ctx, { id, q, ...window }: z.infer<typeof choice>) {
  const { rows, ...envelope } = await issuers.choices(db, { id, q }, window);
  return {
    ...envelope,
    issuers: rows.map(({ id, name, issuer, client_id, authorization_url }) => ({
      id,
      name,
      issuer,
      client_id,
      authorization_url,
    })),
  };
}

async function list({ db }: Ctx, { q, ...request }: z.infer<typeof listed>) {
  const { rows, ...rest } = await issuers.list(db, { q }, request);
  return { issuers: rows, ...rest };
}

async function create(ctx: Ctx, { client_secret, ...given }: z.infer<typeof newIssuer>) {
  const { db, principal } = ctx;
  const org_id = given.org_id ? await actingOrg(db, principal, given.org_id) : null;
  const made = await issuers.create(db, {
    ...given,
    org_id,
    authorization_url: given.authorization_url ?? null,
    token_url: given.token_url ?? null,
    subject: given.subject ?? 'bound',
    email_domains: given.email_domains ?? [],
    groups_claim: given.groups_claim ?? null,
    group_grants: given.group_grants ?? [],
  });
  return withSecret(ctx, made, client_secret);
}

async function update(
  ctx: Ctx,
  { id: named, client_secret, ...given }: z.infer<typeof changedIssuer>,
) {
  const changed = Object.fromEntries(
    Object.entries(given).filter(([, value]) => value !== undefined),
  );
  const change = async (trx: Db) => {
    // Locked, so that no secret comes beside an address that was asked for before there was one.
    const before = await issuers.lock(trx, named);
    if (client_secret === undefined) requireSameOrigins(before, given);
    const issuer = await issuers.update(trx, named, changed);
    return withSecret({ ...ctx, db: trx }, issuer, client_secret);
  };
  const changedTo = await withRetry(() => inName(ctx, change));
  if (given.group_grants !== undefined) await takeBack(ctx, named);
  return changedTo;
}

/** Where the client's secret goes, and who says that an answer from there is true. */
const trusted = ['issuer', 'token_url', 'jwks_url'] as const;

/**
 * Refuses (422) another origin for a client that has a secret: whoever changes an address alone
 * would be sent a secret that they do not know.
 */
function requireSameOrigins(
  before: issuers.SealedIssuer,
  given: { [name in (typeof trusted)[number]]?: string | null | undefined },
): void {
  if (!before.has_client_secret) return;
  const originOf = (text: string | null) => (text === null ? null : new URL(text).origin);
  for (const param of trusted) {
    const to = given[param];
    if (to === undefined || to === null || originOf(to) === originOf(before[param])) continue;
    throw new AppError(
      'invalid_field',
      `${param} names another server, to which the client's secret of now is not sent. Give client_secret with it: that of the client there, or null.`,
      { param },
    );
  }
}

/** Keeps a secret that is given; null takes it away. */
async function withSecret(
  { db, secrets }: Ctx,
  { id: issuer_id }: issuers.Issuer,
  secret: string | null | undefined,
): Promise<issuers.Issuer> {
  if (secret !== undefined) {
    const sealed =
      secret === null ? null : await secrets.seal(secret, owner_of.identity_issuer(issuer_id));
    await issuers.setCredentials(db, issuer_id, sealed);
  }
  const { credentials: _, ...shown } = await issuers.get(db, issuer_id);
  return shown;
}

async function archive(ctx: Ctx, { id: named }: z.infer<typeof one>) {
  // Once it is out nobody is given anything, and what is left can be taken back step by step.
  if (!(await groupGrants.isUnfinished(ctx.db, named)))
    await withRetry(() => inName(ctx, (trx) => issuers.archive(trx, named)));
  await takeBack(ctx, named);
}

/** Takes back what the issuer's groups gave and no longer give, step by step. */
function takeBack(ctx: Ctx, issuer_id: string): Promise<void> {
  return groupGrants.takeBack(issuer_id, (step) => withRetry(() => inName(ctx, step)));
}
