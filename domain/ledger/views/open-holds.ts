import { type ListRequest, listOf, type Part } from '../../lists';
import type { Page } from '../../pages';
import type { Db } from '../../sql';

/** A hold that is open, and the call that it is of. */
export interface OpenHold {
  reservation_id: string;
  request_id: string;
  status: 'open';
  wallet_id: string;
  wallet_owner_type: 'user' | 'team' | 'organization';
  user_id: string | null;
  team_id: string | null;
  key_id: string | null;
  agent_id: string | null;
  session_id: string | null;
  family: string | null;
  provider: string;
  model: string;
  cost_ticket_id: string | null;
  estimated_cost_nanos: bigint;
  reserved_amount_nanos: bigint;
  currency: string;
  exchange_rate: number;
  max_completion_tokens: bigint | null;
  created_at: Date;
  expires_at: Date;
}

/** The open holds of a wallet, as they were made. */
export function list(
  db: Db,
  { wallet_id, org_id }: { wallet_id: string; org_id: string },
  request: ListRequest,
): Promise<Page<OpenHold> | Part<OpenHold>> {
  return listOf(
    db,
    {
      name: 'open holds',
      select: `select r.id as reservation_id, r.request_id, r.status, r.wallet_id, r.wallet_owner_type, r.user_id, r.team_id, r.key_id,
        r.agent_id, r.session_id, r.family, r.provider, r.model, r.cost_ticket_id, r.estimated_nanos as estimated_cost_nanos,
        r.held_nanos as reserved_amount_nanos, r.currency, r.exchange_rate::float as exchange_rate, r.max_completion_tokens,
        r.created_at, r.expires_at`,
      from: `from reservations r where r.org_id = :org_id and r.status = 'open' and r.wallet_id = :wallet_id`,
      bindings: { wallet_id, org_id },
      id: 'r.id',
      created_at: 'r.created_at',
    },
    request,
  );
}
