import type { Window } from './pages';
import { type Db, many } from './sql';

export type TransactionType =
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
  phase: 'hold' | 'close' | 'late' | null;
  actual_cost_nanos: bigint | null;
  transfer_id: string | null;
  payment_session_id: string | null;
  description: string | null;
  created_at: Date;
}

/** The columns of an entry that people see. */
export const columns = `id, wallet_id, seq, type, amount_nanos, balance_after_nanos, provider, model, reservation_id, phase,
  actual_cost_nanos, transfer_id, payment_session_id, description, created_at`;

/** A wallet's entries, newest first. `total` is the wallet's last seq: entries are never deleted. */
export async function list(db: Db, wallet_id: string, { page, per_page }: Window) {
  const transactions = await many<Transaction>(
    db,
    `select ${columns} from wallet_transactions where wallet_id = :wallet_id
     order by seq desc limit :limit offset :offset`,
    { wallet_id, limit: per_page, offset: (page - 1) * per_page },
  );
  const [last] = await many<{ seq: bigint }>(db, 'select seq from wallets where id = :wallet_id', {
    wallet_id,
  });
  const total = Number(last?.seq ?? 0n);
  return { transactions, has_more: page * per_page < total, total };
}
