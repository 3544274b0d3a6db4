import { z } from 'zod';
import * as exchangeRates from '../../domain/exchange-rates';
import * as gifts from '../../domain/ledger/gifts';
import * as wallets from '../../domain/ledger/wallets';
import { lockForTeam, requireInTeam } from '../../domain/people/team-rights';
import type { Db } from '../../domain/sql';
import * as answers from '../answers/money';
import { actingOrg, permissionOrTeam } from '../http/access';
import { currency, id, positiveAmount, text } from '../http/fields';
import { once } from '../http/idempotency';
import { type Ctx, route } from '../http/route';

// Money of a team and its members: by org:billing, or by an admin of the team.

const transfer = z.strictObject({
  id,
  team_id: id,
  user_id: id,
  amount: positiveAmount('amount'),
  currency: currency.optional(),
  note: text.optional(),
});
type Transfer = z.infer<typeof transfer>;

const root = '/v1/organizations/:id/teams/:team_id';

export const teamWalletRoutes = [
  route({
    method: 'post',
    path: `${root}/allocate`,
    access: permissionOrTeam('org:billing'),
    input: transfer,
    handler: allocate,
    summary:
      "Move money from a team's wallet to one of its members': for org:billing and the team's admins.",
    is_idempotent: true,
    answer: answers.moved,
  }),
  route({
    method: 'post',
    path: `${root}/reclaim`,
    access: permissionOrTeam('org:billing'),
    input: transfer,
    handler: reclaim,
    summary:
      "Take back what a team's wallet gave to a person's: for org:billing and the team's admins.",
    is_idempotent: true,
    answer: answers.moved,
  }),
];

function allocate(ctx: Ctx, body: Transfer) {
  return move(ctx, body, async (db, { org_id, team_id, user_id }) => {
    await requireInTeam(db, { team_id, user_id }, 'user_id');
    const from = await wallets.ensureNamed(db, org_id, { team_id }, { isTaking: false });
    const to = await wallets.ensureNamed(db, org_id, { user_id }, { isTaking: false });
    return { from, to };
  });
}

async function reclaim(ctx: Ctx, body: Transfer) {
  await gifts.foldUp(ctx.db, await actingOrg(ctx.db, ctx.principal, body.id), body.user_id);
  return move(ctx, body, async (db, { org_id, team_id, user_id }, amount_nanos) => {
    const to = await wallets.ensureNamed(db, org_id, { team_id }, { isTaking: false });
    const from = await wallets.ensureNamed(db, org_id, { user_id }, { isTaking: true });
    await gifts.requireGiven(db, { giver: to.wallet_id, taker: from.wallet_id }, amount_nanos);
    return { from, to };
  });
}

interface Named {
  org_id: string;
  team_id: string;
  user_id: string;
}

interface Ends {
  from: wallets.Wallet;
  to: wallets.Wallet;
}

/** Moves the amount between the wallets that `endsOf` finds, under the organization's lock. */
async function move(
  ctx: Ctx,
  { id: named_id, team_id, user_id, ...given }: Transfer,
  endsOf: (db: Db, named: Named, amount_nanos: bigint) => Promise<Ends>,
) {
  const org_id = await actingOrg(ctx.db, ctx.principal, named_id);
  return once(ctx, org_id, async (db) => {
    await lockForTeam(db, { org_id, team_id }, ctx.principal, 'org:billing');
    const organization = await wallets.ensure(db, org_id, { owner_type: 'organization' });
    const amount_nanos = await exchangeRates.convert(
      db,
      given.amount,
      given.currency ?? organization.currency,
      organization.currency,
    );
    const { from, to } = await endsOf(db, { org_id, team_id, user_id }, amount_nanos);
    const transactions = await wallets.transfer(db, {
      org_id,
      from: from.wallet_id,
      to: to.wallet_id,
      amount_nanos,
      description: given.note,
    });
    return {
      from: await wallets.getAny(db, from.wallet_id),
      to: await wallets.getAny(db, to.wallet_id),
      transactions,
    };
  });
}
