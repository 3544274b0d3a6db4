import type { Answer } from '../api/client';

type Options = Answer<'GET /api/payments/options'>;

/**
 * Why a checkout that is begun at this address would be refused for sure, in words; undefined if
 * nothing is in the way. With `target` it is one into a wallet of this kind.
 * @param origin the address to which the buyer comes back
 */
export function obstacle(
  settings: Options,
  origin: string,
  target?: Options['topup_target_scopes'][number],
): string | undefined {
  if (!settings.payment_provider_configured)
    return 'No payment provider is set up. An operator of the platform does that under Payments, Providers.';
  if (!settings.currency_supported_by_active_provider)
    return `The payment provider does not take ${settings.currency}.`;
  if (!settings.may_top_up)
    return 'Only billing admins of this organization may top up. Ask one of them.';
  if (!settings.return_origins.includes(origin))
    return `Buyers may not be sent back to ${origin}. A billing admin adds it under Settings, Top-ups.`;
  if (target !== undefined && !settings.topup_target_scopes.includes(target))
    return `The wallet of ${owners[target]} may not be topped up here.`;
  return undefined;
}

const owners = { organization: 'the organization', team: 'a team', user: 'a person' } as const;
