import { useQuery } from '@tanstack/react-query';
import type { Answer } from '../api/client';
import { reading } from '../api/queries';
import { isMovedOnly, mayCredit } from './credits';
import { may, useMe } from './me';

type Rules = Answer<'GET /api/wallet-settings/:id'>;

/** The organization's settings of wallets, for those who bill; undefined until they are read. */
function useRules(): Rules | undefined {
  const me = useMe();
  const { data } = useQuery({
    ...reading('GET /api/wallet-settings/:id', { names: { id: me.acting_org ?? '' } }),
    enabled: me.acting_org !== null && may(me, 'org:billing'),
    staleTime: 300_000,
  });
  return data;
}

/** What counts as low where a wallet says nothing of its own. */
export function useThreshold(): number | undefined {
  return useRules()?.low_balance_threshold;
}

/** Whether the person may make new money, and whether their approvals move money alone. */
export function useCredits(): { may_credit: boolean; is_moved_only: boolean } {
  const is_platform = may(useMe(), 'platform:admin');
  const manual_credit = useRules()?.manual_credit;
  const rule = { is_platform, manual_credit };
  return { may_credit: mayCredit(rule), is_moved_only: isMovedOnly(rule) };
}
