import type { Answer } from '../api/client';

export type WalletRow = Answer<'GET /api/wallets/:id'>;

/** How a wallet stands: by what it has, holds included, as the API's filter judges it. */
export function standing(
  { balance, reserved, low_balance_threshold }: WalletRow,
  threshold_of_all: number | undefined,
) {
  const has = balance + reserved;
  if (has < 0) return { word: 'in debt', kind: 'bad' } as const;
  if (has === 0) return { word: 'depleted', kind: 'bad' } as const;
  const threshold = low_balance_threshold ?? threshold_of_all;
  if (threshold !== undefined && has < threshold) return { word: 'low', kind: 'waiting' } as const;
  return { word: 'healthy', kind: 'good' } as const;
}

export const kinds = {
  organization: 'Organization',
  team: 'Team',
  user: 'Person',
} as const;
