import { useQuery } from '@tanstack/react-query';
import type { Answer } from '../api/client';
import { reading } from '../api/queries';
import { isMovedOnly, mayCredit } from './credits';
import { may, useMe } from './me';

type Rules = Answer<'GET /api/wallet-settings/:id'>;

/** An organization's settings of wallets, for those who bill; undefined until they are read. */
function useRules(org_id: string | null): Rules | undefined {
  const me = useMe();
  const { data } = useQuery({
    ...reading('GET /api/wallet-settings/:id', { names: { id: org_id ?? '' } }),
    enabled: org_id !== null && may(me, 'org:billing'),
    staleTime: 300_000,
  });
  return data;
}

/** What counts as low where a wallet of the organization says nothing of its own. */
export function useThreshold(org_id: string | null): number | undefined {
  return useRules(org_id)?.low_balance_threshold;
}

/** Whether the person may make new money, and whether their approvals move money alone. */
export function useCredits(): { may_credit: boolean; is_moved_only: boolean } {
  const me = useMe();
  const is_platform = may(me, 'platform:admin');
  const manual_credit = useRules(me.acting_org)?.manual_credit;
  const rule = { is_platform, manual_credit };
  return { may_credit: mayCredit(rule), is_moved_only: isMovedOnly(rule) };
}
