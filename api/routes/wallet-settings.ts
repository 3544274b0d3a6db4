import { z } from 'zod';
import * as walletSettings from '../../domain/ledger/wallet-settings';
import * as answers from '../answers/money';
import { actingOrg, permission, platformAdmin } from '../http/access';
import { amount, currency, factor, flag, id, priceFactor } from '../http/fields';
import { type Ctx, route } from '../http/route';

const settingsBody = z.strictObject({
  id,
  currency: currency.optional(),
  reserve_buffer_pct: z.number().min(0).max(1_000).optional(),
  low_balance_threshold: amount('low_balance_threshold').optional(),
  reservation_ttl_seconds: z.int().min(1).max(86_400).optional(),
  ticket_ttl_seconds: z.int().min(1).max(2_592_000).optional(),
  default_max_completion_tokens: z.int().min(1).max(100_000_000).optional(),
  manual_credit: z.enum(['allowed', 'platform_only']).optional(),
  wallet_user_topup_enabled: flag.optional(),
  time_zone: id.optional(),
  own_key_factor_min: priceFactor.optional(),
  price_factor: factor(10).optional(),
});

export const walletSettingsRoutes = [
  route({
    method: 'get',
    path: '/v1/organizations/:id/wallet-settings',
    access: permission('org:billing'),
    input: z.strictObject({ id }),
    handler: getOwnSettings,
    summary: "The organization's wallet settings. Platform admins change them.",
    answer: answers.settings,
  }),
  route({
    method: 'get',
    path: '/v1/admin/organizations/:id/wallet-settings',
    access: platformAdmin,
    input: z.strictObject({ id }),
    handler: getSettings,
    summary: 'Wallet settings of an organization.',
    answer: answers.settings,
  }),
  route({
    method: 'put',
    path: '/v1/admin/organizations/:id/wallet-settings',
    access: platformAdmin,
    input: settingsBody,
    handler: putSettings,
    is_recorded: true,
    summary: 'Change the given wallet settings of an organization.',
    answer: answers.settings,
  }),
];

async function getOwnSettings({ db, principal }: Ctx, { id: named }: { id: string }) {
  return walletSettings.get(db, await actingOrg(db, principal, named));
}

async function getSettings({ db }: Ctx, { id: org_id }: { id: string }) {
  return walletSettings.get(db, org_id);
}

async function putSettings(
  { db }: Ctx,
  { id: org_id, low_balance_threshold, ...rest }: z.infer<typeof settingsBody>,
) {
  const change = { ...rest, low_balance_threshold_nanos: low_balance_threshold };
  return walletSettings.change(db, org_id, change);
}
