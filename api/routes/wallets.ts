import { z } from 'zod';
import * as exchangeRates from '../../domain/exchange-rates';
import { requireKnown } from '../../domain/known';
import { balances } from '../../domain/ledger/balances';
import * as walletLists from '../../domain/ledger/views/wallet-lists';
import * as walletSettings from '../../domain/ledger/wallet-settings';
import * as wallets from '../../domain/ledger/wallets';
import { isPlatformAdmin, lock, may } from '../../domain/people/rights';
import type { Db } from '../../domain/sql';
import * as answers from '../answers/money';
import * as shared from '../answers/shared';
import {
  actingOrg,
  member,
  ownerOf,
  ownOrg,
  type Principal,
  permission,
  platformAdmin,
} from '../http/access';
import { amount, currency, id, listParts, positiveAmount, search, text } from '../http/fields';
import { once } from '../http/idempotency';
import { type Ctx, route } from '../http/route';

const ownerType = z.enum(['organization', 'team', 'user']);
const walletsQuery = z.strictObject({
  org_id: id.optional(),
  q: search,
  status: z
    .enum(walletLists.walletStatuses)
    .optional()
    .describe(
      'Only wallets that stand so: by what they have, holds included, against their threshold and 0.',
    ),
  owner_type: ownerType.optional().describe('Only wallets of owners of this kind.'),
  team_id: id.optional().describe("Only this team's wallet."),
  user_id: id.optional().describe("Only this person's wallet."),
  member_of: id.optional().describe("Only wallets of this team's people."),
  ...listParts(),
  sort: z
    .enum(['created_at', '-created_at'])
    .optional()
    .describe('The order; a minus in front runs it backwards. Without it pages are by owner.'),
});
const balanceQuery = z.strictObject({ org_id: id.optional(), team_id: id.optional() });
const thresholdBody = z.strictObject({
  id,
  low_balance_threshold: amount('low_balance_threshold').nullable(),
});
const creditBody = z.strictObject({
  org_id: id.optional(),
  target_wallet_owner_type: ownerType,
  target_wallet_owner_id: id.optional(),
  amount: positiveAmount('amount'),
  description: text.optional(),
});
const transferBody = z.strictObject({
  org_id: id.optional(),
  team_id: id.optional(),
  user_id: id.optional(),
  amount: positiveAmount('amount'),
  currency: currency.optional(),
  note: text.optional(),
});
const billing = permission('org:billing');

export const walletRoutes = [
  route({
    method: 'get',
    path: '/v1/wallets',
    access: member,
    input: walletsQuery,
    handler: listWallets,
    summary: 'The wallets that the caller may see.',
    answer: shared.parts({ wallets: answers.wallet }),
  }),
  route({
    method: 'get',
    path: '/v1/wallets/balance',
    access: member,
    input: balanceQuery,
    handler: balance,
    summary:
      "What the caller could spend: the user's, else the team's, else the organization's wallet.",
    answer: answers.balances,
  }),
  route({
    method: 'put',
    path: '/v1/wallets/:id',
    access: billing,
    input: thresholdBody,
    handler: putThreshold,
    is_recorded: true,
    summary: "Change when a wallet counts as low; null: as the organization's settings say.",
    answer: answers.wallet,
  }),
  route({
    method: 'post',
    path: '/v1/wallets/credit',
    access: billing,
    input: creditBody,
    handler: credit,
    summary: 'Add money to a wallet by hand.',
    is_idempotent: true,
    status: 201,
    answer: answers.credited,
  }),
  route({
    method: 'post',
    path: '/v1/wallets/allocate',
    access: billing,
    input: transferBody,
    handler: allocate,
    summary: "Move money from the organization's wallet to a team's or user's.",
    is_idempotent: true,
    answer: answers.moved,
  }),
  route({
    method: 'post',
    path: '/v1/wallets/reclaim',
    access: billing,
    input: transferBody,
    handler: reclaim,
    summary: "Move money from a team's or user's wallet back to the organization's.",
    is_idempotent: true,
    answer: answers.moved,
  }),
  route({
    method: 'get',
    path: '/v1/admin/wallets',
    access: platformAdmin,
    input: walletsQuery,
    handler: listAllWallets,
    summary: 'All wallets of all organizations, newest first.',
    answer: shared.parts({ wallets: answers.wallet }),
  }),
  route({
    method: 'put',
    path: '/v1/admin/wallets/:id',
    access: platformAdmin,
    input: thresholdBody,
    handler: putThreshold,
    is_recorded: true,
    summary: 'Change when any wallet counts as low.',
    answer: answers.wallet,
  }),
  route({
    method: 'post',
    path: '/v1/admin/wallets/credit',
    access: platformAdmin,
    input: creditBody,
    handler: credit,
    summary: 'Add money to a wallet of any organization.',
    is_idempotent: true,
    status: 201,
    answer: answers.credited,
  }),
];

export async function viewer(
  db: Db,
  principal: Principal,
  org_id?: string,
): Promise<wallets.Viewer> {
  return {
    org_id: await actingOrg(db, principal, org_id),
    user_id: principal.user_id,
    sees_all: may(principal, 'org:billing'),
  };
}

async function listWallets(
  { db, principal }: Ctx,
  { org_id, page, per_page, as_of, cursor, sort, ...filter }: z.infer<typeof walletsQuery>,
) {
  const seen_by = await viewer(db, principal, org_id);
  await requireKnown(db, seen_by.org_id, filter);
  const request = { page, per_page, as_of, cursor, sort };
  const { rows, ...rest } = await walletLists.list(db, seen_by, filter, request);
  return { wallets: rows, ...rest };
}

async function balance({ db, principal }: Ctx, { org_id, team_id }: z.infer<typeof balanceQuery>) {
  return balances(db, await viewer(db, principal, org_id), team_id);
}

/** The named wallet: any for platform admins, for others one that they may see. */
export async function found({ db, principal }: Ctx, wallet_id: string): Promise<wallets.Wallet> {
  return isPlatformAdmin(principal)
    ? wallets.getAny(db, wallet_id)
    : wallets.get(db, wallet_id, await viewer(db, principal));
}

async function putThreshold(
  ctx: Ctx,
  { id: named_id, low_balance_threshold }: z.infer<typeof thresholdBody>,
) {
  const org_id = ownOrg(ctx.principal);
  if (org_id !== null) await lock(ctx.db, org_id, ctx.principal, 'org:billing');
  return wallets.setThreshold(ctx.db, await found(ctx, named_id), low_balance_threshold);
}

async function listAllWallets(
  ctx: Ctx,
  { page, per_page, as_of, cursor, sort, ...filter }: z.infer<typeof walletsQuery>,
) {
  await requireKnown(ctx.db, await ownerOf(ctx, filter.org_id), filter);
  const request = { page, per_page, as_of, cursor, sort };
  const { rows, ...rest } = await walletLists.listAll(ctx.db, filter, request);
  return { wallets: rows, ...rest };
}

async function credit(ctx: Ctx, body: z.infer<typeof creditBody>) {
  const {
    target_wallet_owner_type: owner_type,
    target_wallet_owner_id: owner_id,
    amount: amount_nanos,
    description,
  } = body;
  const org_id = await actingOrg(ctx.db, ctx.principal, body.org_id);
  return once(ctx, org_id, async (db) => {
    await lock(db, org_id, ctx.principal, 'org:billing');
    const target = await wallets.ensure(db, org_id, { owner_type, owner_id });
    const { manual_credit } = await walletSettings.get(db, org_id);
    // Under platform_only an organization makes no money of its own: its credits are transfers from
    // its own wallet.
    const isTransfer = manual_credit === 'platform_only' && !isPlatformAdmin(ctx.principal);
    const transaction = isTransfer
      ? await fromOrganization(db, org_id, target, { amount_nanos, description })
      : await wallets.credit(db, target.wallet_id, { org_id, amount_nanos, description });
    return { wallet: await wallets.getAny(db, target.wallet_id), transaction };
  });
}

async function fromOrganization(
  db: Db,
  org_id: string,
  target: wallets.Wallet,
  given: { amount_nanos: bigint; description: string | undefined },
) {
  const source = await wallets.ensure(db, org_id, { owner_type: 'organization' });
  const entries = await wallets.transfer(db, {
    org_id,
    from: source.wallet_id,
    to: target.wallet_id,
    ...given,
  });
  return entries.find((entry) => entry.wallet_id === target.wallet_id);
}

function allocate(ctx: Ctx, body: z.infer<typeof transferBody>) {
  return move(ctx, body, 'from_organization');
}

function reclaim(ctx: Ctx, body: z.infer<typeof transferBody>) {
  return move(ctx, body, 'to_organization');
}

async function move(
  ctx: Ctx,
  body: z.infer<typeof transferBody>,
  direction: 'from_organization' | 'to_organization',
) {
  const org_id = await actingOrg(ctx.db, ctx.principal, body.org_id);
  return once(ctx, org_id, async (db) => {
    await lock(db, org_id, ctx.principal, 'org:billing');
    const organization = await wallets.ensure(db, org_id, { owner_type: 'organization' });
    const isTaking = direction === 'to_organization';
    const other = await wallets.ensureNamed(db, org_id, body, { isTaking });
    const [from, to] =
      direction === 'from_organization' ? [organization, other] : [other, organization];
    // Converted once: the same nanos leave one wallet and reach the other.
    const amount_nanos = await exchangeRates.convert(
      db,
      body.amount,
      body.currency ?? organization.currency,
      organization.currency,
    );
    const entries = await wallets.transfer(db, {
      org_id,
      from: from.wallet_id,
      to: to.wallet_id,
      amount_nanos,
      description: body.note,
    });
    return {
      from: await wallets.getAny(db, from.wallet_id),
      to: await wallets.getAny(db, to.wallet_id),
      transactions: entries,
    };
  });
}
