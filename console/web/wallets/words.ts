import type { Answer } from '../api/client';
import { amountOf, nanosOf } from '../base/decimals';

export type WalletRow = Answer<'GET /api/wallets/:id'>;

/**
 * How a wallet stands: by what it has, holds included, as the API's filter judges it. The threshold
 * of all is undefined while it is unknown.
 */
export function standing(
  { balance, reserved, low_balance_threshold }: WalletRow,
  threshold_of_all: number | undefined,
) {
  const nanos = nanosOf(balance) + nanosOf(reserved);
  const has = amountOf(nanos);
  if (nanos < 0n) return { word: 'in debt', kind: 'bad' } as const;
  if (nanos === 0n) return { word: 'depleted', kind: 'bad' } as const;
  const threshold = low_balance_threshold ?? threshold_of_all;
  if (threshold === undefined) return { word: 'has money', kind: 'neutral' } as const;
  if (has < threshold) return { word: 'low', kind: 'waiting' } as const;
  return { word: 'healthy', kind: 'good' } as const;
}

export const kinds = {
  organization: 'Organization',
  team: 'Team',
  user: 'Person',
} as const;
