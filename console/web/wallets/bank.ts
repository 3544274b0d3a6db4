import { useQuery } from '@tanstack/react-query';
import { reading } from '../api/queries';

/** The organization's wallet. */
export function useBank() {
  const query = { owner_type: 'organization', per_page: 1 } as const;
  return useQuery({ ...reading('GET /api/wallets', { query }), refetchInterval: 30_000 });
}
