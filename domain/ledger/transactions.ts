import type { PageRequest } from '../pages';
import { type Db, many, one } from '../sql';

type TransactionType =
  | 'credit'
  | 'reservation'
  | 'settlement'
  | 'allocation_in'
  | 'allocation_out'
  | 'payment_credit'
  | 'payment_refund';

export interface Transaction {
  id: string;
  wallet_id: string;
  seq: bigint;
  type: TransactionType;
  amount_nanos: bigint;
  balance_after_nanos: bigint;
  provider: string | null;
  model: string | null;
  reservation_id: string | null;
  phase: 'hold' | 'close' | 'late' | 'excess' | null;
  actual_cost_nanos: bigint | null;
  transfer_id: string | null;
  payment_session_id: string | null;
  description: string | null;
  created_at: Date;
  /** Who made it by hand; null for calls, clocks and providers, and for entries of before. */
  actor: string | null;
  /**
   * Of an approval: the ticket and who approved it, a person, a key or `rule`; absent of others.
   */
  approval?: { cost_ticket_id: string; decided_by: string; approval_rule_id: string | null };
}

/** The columns of an entry that people see. */
export const columns = `id, wallet_id, seq, type, amount_nanos, balance_after_nanos, provider, model, reservation_id, phase,
  actual_cost_nanos, transfer_id, payment_session_id, description, created_at, actor`;

const approval = `(select jsonb_build_object('cost_ticket_id', a.cost_ticket_id, 'decided_by', a.decided_by,
  'approval_rule_id', a.approval_rule_id) from approval_entries a where a.transaction_id = wallet_transactions.id) as approval`;

interface LedgerPageRequest extends PageRequest {
  /**
   * The list as it was when this was its newest entry: pages then stay the same while entries are
   * written.
   */
  seq_max?: number | undefined;
}

/**
 * A wallet's entries, newest first. `total` is the newest entry's seq: entries have no gaps and are
 * never deleted.
 */
export async function list(
  db: Db,
  wallet_id: string,
  { page, per_page, seq_max }: LedgerPageRequest,
) {
  const { total } = await one<{ total: number }>(
    db,
    'select least(seq, :seq_max::bigint)::float as total from wallets where id = :wallet_id',
    { wallet_id, seq_max: seq_max ?? null },
  );
  const newest = total - (page - 1) * per_page;
  const found = await many<Transaction>(
    db,
    `select ${columns}, ${approval} from wallet_transactions
     where wallet_id = :wallet_id and seq <= :newest and seq > :before order by seq desc`,
    { wallet_id, newest, before: newest - per_page },
  );
  const transactions = found.map(({ approval: of, ...entry }) =>
    of ? { ...entry, approval: of } : entry,
  );
  return { transactions, has_more: newest > per_page, total };
}
