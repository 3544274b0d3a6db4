import { AppError } from '../../domain/errors';
import * as walletSettings from '../../domain/ledger/wallet-settings';
import type { Owner } from '../../domain/ledger/wallets';
import { decimalText } from '../../domain/money';
import { getConfig, type PlatformConfig, usableProviders } from '../../domain/payments/config';
import { minimumNanos, type ProviderName, stepNanos } from '../../domain/payments/currencies';
import { getOrgSettings } from '../../domain/payments/settings';
import { may } from '../../domain/people/rights';
import * as teams from '../../domain/people/teams';
import type { Db } from '../../domain/sql';
import type { Principal } from '../http/access';
import { allowedReturn } from './return-urls';

/** A checkout that somebody asks for; amounts are nanos. */
export interface CheckoutWish {
  amount: bigint;
  target_wallet_owner_type: 'user' | 'team' | 'organization';
  target_wallet_owner_id?: string | undefined;
  surface: 'console' | 'chat';
  return_url: string;
  cancel_url: string;
}

/** The wish held against the organization's rules and the platform's provider. */
export async function judged(db: Db, principal: Principal, org_id: string, input: CheckoutWish) {
  const [settings, { currency, wallet_user_topup_enabled }, config] = await Promise.all([
    getOrgSettings(db, org_id),
    walletSettings.get(db, org_id),
    getConfig(db),
  ]);
  const mayBill = may(principal, 'org:billing');
  if (!wallet_user_topup_enabled && !mayBill)
    throw new AppError(
      'permission_denied',
      'This organization lets only people with org:billing top up its wallets.',
    );
  const owner = await targetOf(db, { principal, org_id, mayBill }, input);
  if (!settings.topup_target_scopes.includes(owner.owner_type))
    throw notAllowed(
      `Top-ups of ${owner.owner_type} wallets are switched off here. Allowed: ${settings.topup_target_scopes.join(', ')}.`,
    );
  const name = providerFor(config, currency);
  requireAmount(input.amount, { ...settings, currency, name });
  return {
    provider: name,
    surface: input.surface,
    amount_nanos: input.amount,
    currency,
    owner,
    return_url: allowedReturn(input.return_url, settings.return_origins, 'return_url'),
    cancel_url: allowedReturn(input.cancel_url, settings.return_origins, 'cancel_url'),
  };
}

interface Asker {
  principal: Principal;
  org_id: string;
  mayBill: boolean;
}

/**
 * Whose wallet: one's own, one's own team's (any team's for callers who may bill), the
 * organization's. The chat surface knows only the last.
 */
async function targetOf(
  db: Db,
  { principal, org_id, mayBill }: Asker,
  { surface, ...input }: CheckoutWish,
): Promise<Owner> {
  const { target_wallet_owner_type: owner_type, target_wallet_owner_id: owner_id } = input;
  if (surface === 'chat') return { owner_type: 'organization' };
  if (owner_type === 'organization') return { owner_type, owner_id };
  if (owner_type === 'user') {
    const own = principal.user_id;
    if (own === null) throw notAllowed('This key stands for no person, so it has no user wallet.');
    if (owner_id !== undefined && owner_id !== own)
      throw notAllowed("You can top up your own wallet, not another person's.");
    return { owner_type, owner_id: own };
  }
  if (owner_id === undefined)
    throw new AppError('invalid_field', 'Name the team: target_wallet_owner_id.', {
      param: 'target_wallet_owner_id',
    });
  const { user_id } = principal;
  if (!mayBill && !(await teams.includes(db, { org_id, team_id: owner_id, user_id })))
    throw notAllowed('You can top up the wallets of your own teams only.');
  return { owner_type, owner_id };
}

function notAllowed(message: string): AppError {
  return new AppError('target_not_allowed', message, { param: 'target_wallet_owner_type' });
}

/** The active provider, if it accepts the organization's currency. */
function providerFor(config: PlatformConfig, currency: string): ProviderName {
  const name = usableProviders(config).find((usable) => usable === config.active_provider);
  if (name === undefined)
    throw new AppError(
      'payment_not_configured',
      config.active_provider === null
        ? 'No payment provider is active. A platform admin must enable one: PUT /v1/admin/payments/config.'
        : `${config.active_provider} is active but switched off, or lacks credentials. A platform admin must mend that: PUT /v1/admin/payments/config.`,
    );
  if (config[name].supported_currencies.includes(currency)) return name;
  throw new AppError(
    'currency_not_supported',
    `The active payment provider does not take ${currency}. A platform admin must add it to supported_currencies or choose another provider: PUT /v1/admin/payments/config.`,
  );
}

interface Bounds {
  min_topup_amount_nanos: bigint;
  max_topup_amount_nanos: bigint;
  currency: string;
  name: ProviderName;
}

function requireAmount(
  amount_nanos: bigint,
  { min_topup_amount_nanos: min, max_topup_amount_nanos: max, currency, name }: Bounds,
): void {
  const shown = (nanos: bigint) => `${decimalText(nanos)} ${currency}`;
  const refuse = (message: string) => {
    throw new AppError('invalid_field', message, { param: 'amount' });
  };
  if (amount_nanos < min || amount_nanos > max)
    refuse(
      `A top-up of ${shown(amount_nanos)} is outside what this organization allows: ${shown(min)} to ${shown(max)}.`,
    );
  const step = stepNanos(name, currency);
  if (amount_nanos % step !== 0n)
    refuse(
      `amount must be a whole number of ${shown(step)}, the smallest step that ${name} can take.`,
    );
  const least = minimumNanos(name, currency);
  if (amount_nanos < least) refuse(`${name} takes no payment below ${shown(least)}.`);
}
