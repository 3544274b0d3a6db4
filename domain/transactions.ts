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

export interface Page {
  page: number;
  per_page: number;
}

/** A wallet's entries, newest first. `total` is the wallet's last seq: entries are never deleted. */
export async function list(db: Db, wallet_id: string, { page, per_page }: Page) {
  const transactions = await many<Transaction>(
    db,
    `select id, wallet_id, seq, type, amount_nanos, balance_after_nanos, provider, model, reservation_id, phase,
       actual_cost_nanos, transfer_id, payment_session_id, description, created_at
     from wallet_transactions where wallet_id = :wallet_id order by seq desc limit :limit offset :offset`,
    { wallet_id, limit: per_page, offset: (page - 1) * per_page },
  );
  const [last] = await many<{ seq: bigint }>(db, 'select seq from wallets where id = :wallet_id', {
    wallet_id,
  });
  const total = Number(last?.seq ?? 0n);
  return { transactions, has_more: page * per_page < total, total };
}
