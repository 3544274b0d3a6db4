import { z } from 'zod';
import { sha256 } from '../../domain/digest';
import { AppError } from '../../domain/errors';
import * as byHand from '../../domain/notices/by-hand';
import * as destinations from '../../domain/notices/destinations';
import {
  channels,
  type NoticeKind,
  organization_kinds,
  platform_kinds,
} from '../../domain/notices/kinds';
import * as messages from '../../domain/notices/messages';
import * as answers from '../answers/notices';
import * as shared from '../answers/shared';
import { actorOf, ownerOf, ownOrg } from '../http/access';
import { inName } from '../http/acting';
import { id, name, page } from '../http/fields';
import { isRepeated, once } from '../http/idempotency';
import { type Ctx, route } from '../http/route';
import { billing, secret, url } from './fields';
import { newSecret, targetOf } from './targets';

const kinds = z
  .array(z.enum([...organization_kinds, ...platform_kinds]))
  .min(1)
  .max(organization_kinds.length + platform_kinds.length)
  .transform((given) => [...new Set(given)]);
const made = z.strictObject({
  org_id: id.optional(),
  name,
  channel: z.enum(channels),
  url: url.optional().describe('Of a webhook, or the incoming webhook of Slack or Teams.'),
  secret: secret.optional().describe('Of a webhook; one is made and shown once if it is absent.'),
  kinds: kinds.optional().describe('What it is told of; all if absent.'),
});
const changed = z.strictObject({
  id,
  name: name.optional(),
  kinds: kinds.optional(),
  enabled: z.boolean().optional().describe('true: send again, also if its server had gone.'),
  url: url.optional(),
  secret: secret.optional().describe('Goes with url: a changed address needs its secret again.'),
});
const listed = z.strictObject({ org_id: id.optional(), ...page });
const one = z.strictObject({ id });

export const noticeDestinationRoutes = [
  route({
    method: 'post',
    path: '/v1/notice-destinations',
    access: billing,
    input: made,
    handler: make,
    is_idempotent: true,
    status: 201,
    summary:
      'A webhook, a channel of Slack or Teams, or mail that is told of things; the secret of a webhook is shown in this answer only.',
    answer: answers.newNoticeDestination,
  }),
  route({
    method: 'get',
    path: '/v1/notice-destinations',
    access: billing,
    input: listed,
    handler: list,
    summary: 'The destinations of notices, newest first.',
    answer: shared.list({ destinations: answers.noticeDestination }),
  }),
  route({
    method: 'get',
    path: '/v1/notice-destinations/:id',
    access: billing,
    input: one,
    handler: ({ db, principal }: Ctx, input) => destinations.get(db, input.id, ownerIn(principal)),
    summary: 'A destination of notices.',
    answer: answers.noticeDestination,
  }),
  route({
    method: 'put',
    path: '/v1/notice-destinations/:id',
    access: billing,
    input: changed,
    handler: change,
    summary: 'Change what a destination is told of, where it is, or whether it is told at all.',
    answer: answers.noticeDestination,
  }),
  route({
    method: 'delete',
    path: '/v1/notice-destinations/:id',
    access: billing,
    input: one,
    handler: remove,
    is_recorded: true,
    summary: 'Tell a destination nothing more; what waits for it is given up.',
    answer: answers.noticeDestination,
  }),
  route({
    method: 'post',
    path: '/v1/notice-destinations/:id/test',
    access: billing,
    input: one,
    handler: test,
    status: 201,
    summary: 'Send a test; GET /v1/notice-messages/{id} says how it went.',
    answer: answers.noticeMessage,
  }),
];

/** Platform admins reach any by its id. */
function ownerIn(principal: Ctx['principal']) {
  return ownOrg(principal) ?? undefined;
}

async function make(ctx: Ctx, { org_id: named, ...given }: z.infer<typeof made>) {
  const { principal, secrets, notice_reach } = ctx;
  const org_id = await ownerOf(ctx, named);
  if (await isRepeated(ctx, org_id)) return tellSecret(ctx);
  const all: readonly NoticeKind[] = org_id === null ? platform_kinds : organization_kinds;
  const chosen = given.kinds ?? all;
  requireKinds(chosen, org_id);
  const secret = given.channel === 'webhook' ? (given.secret ?? newSecret()) : given.secret;
  const to = await targetIn({ ...given, secret }, notice_reach);
  const { name, channel } = given;
  const created_by = actorOf(principal);
  const row = { org_id, name, channel, kinds: chosen, created_by, ...to };
  // Only now: no connection is held while the name is resolved.
  const told = channel === 'webhook' ? (secret ?? null) : null;
  const kept = await once(ctx, org_id, async (trx) => ({
    ...(await destinations.create(trx, secrets, row)),
    secret_digest: told && (await sha256(told)),
  }));
  if (kept === undefined) return tellSecret(ctx);
  const { secret_digest: _, ...destination } = kept as Kept;
  return { ...destination, secret: told };
}

/** What is kept of a new destination: of its secret the digest alone. */
type Kept = destinations.Destination & { secret_digest: string | null };

/**
 * No stored answer holds a secret: a call with an Idempotency-Key reads it from the destination. A
 * repeat finds none if that was removed meanwhile, or has another one, which somebody else set.
 */
async function tellSecret({ db, secrets, http }: Ctx): Promise<void> {
  if (http.status >= 400) return;
  const { secret_digest, ...kept } = JSON.parse(String(http.body)) as Kept;
  const { secret } = await destinations.open(db, secrets, kept.id);
  const is_its_own = secret !== undefined && (await sha256(secret)) === secret_digest;
  http.body = JSON.stringify({ ...kept, secret: is_its_own ? secret : null });
}

function targetIn(given: z.infer<typeof made>, reach: Ctx['notice_reach']) {
  const { channel, url: address, secret: word } = given;
  if (channel !== 'email') {
    if (address !== undefined) return targetOf({ ...given, url: address }, reach);
    throw new AppError('invalid_field', `url is needed for ${channel}.`, { param: 'url' });
  }
  if (address !== undefined || word !== undefined)
    throw new AppError('invalid_field', 'Mail has no address here: add recipients.', {
      param: address === undefined ? 'secret' : 'url',
    });
  if (reach.has_mail) return { url: null, host: null, credentials: {} };
  throw new AppError('invalid_field', 'The operator has set no mail server: NOTICE_MAIL_FROM.', {
    param: 'channel',
  });
}

function requireKinds(chosen: readonly NoticeKind[], org_id: string | null): void {
  const allowed: readonly string[] = org_id === null ? platform_kinds : organization_kinds;
  const wrong = chosen.find((kind) => !allowed.includes(kind));
  if (wrong === undefined) return;
  const whose = org_id === null ? "the platform's" : "an organization's";
  throw new AppError(
    'invalid_field',
    `${wrong} is none of ${whose} kinds: ${allowed.join(', ')}.`,
    { param: 'kinds' },
  );
}

async function list(ctx: Ctx, { org_id: named, ...window }: z.infer<typeof listed>) {
  const { rows, ...rest } = await destinations.list(ctx.db, await ownerOf(ctx, named), window);
  return { destinations: rows, ...rest };
}

async function change(
  ctx: Ctx,
  { id: destination_id, url: address, ...given }: z.infer<typeof changed>,
) {
  const { db, principal, secrets, notice_reach } = ctx;
  const owner = ownerIn(principal);
  const { secret: word, ...rest } = given;
  const { channel, org_id } = await destinations.get(db, destination_id, owner);
  if (rest.kinds) requireKinds(rest.kinds, org_id);
  if (address === undefined && word !== undefined)
    throw new AppError('invalid_field', 'secret goes with url: send both.', { param: 'url' });
  if (address !== undefined && channel === 'email')
    throw new AppError('invalid_field', 'Mail has no address here: add recipients.', {
      param: 'url',
    });
  const to =
    address === undefined
      ? undefined
      : await targetOf({ channel, url: address, secret: word }, notice_reach);
  return inName(ctx, (trx) =>
    destinations.change(trx, secrets, { id: destination_id, owner }, { ...rest, to }),
  );
}

async function remove({ db, principal }: Ctx, input: z.infer<typeof one>) {
  const removed = await destinations.archive(db, input.id, ownerIn(principal));
  await messages.wake(db, input.id);
  return removed;
}

async function test(ctx: Ctx, input: z.infer<typeof one>) {
  const found = await destinations.get(ctx.db, input.id, ownerIn(ctx.principal));
  if (found.disabled_at !== null)
    throw new AppError('invalid_field', 'This destination is disabled. Enable it first.', {
      param: 'id',
    });
  return inName(ctx, (trx) => byHand.test(trx, found.id));
}
