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
