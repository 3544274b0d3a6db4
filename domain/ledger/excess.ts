import { AppError } from '../errors';
import { type ListRequest, listOf, type Part } from '../lists';
import type { Page } from '../pages';
import { type Db, one } from '../sql';

/** What a settle told beyond the bound of a charge. Amounts are nanos of the wallet's currency. */
export interface Excess {
  id: string;
  org_id: string;
  reservation_id: string;
  status: 'open' | 'charged' | 'dropped';
  wallet_id: string;
  currency: string;
  /** What the settle charged. */
  charged_nanos: bigint;
  /** What it did not. */
  excess_nanos: bigint;
  created_at: Date;
  decided_at: Date | null;
  decided_by: string | null;
  note: string | null;
  /** The entry that charged it. */
  transaction_id: string | null;
}

/** What a person does with an excess, once. */
export interface Decision {
  id: string;
  action: 'charge' | 'drop';
  note?: string | undefined;
  by: string;
}

const columns = `x.id, x.org_id, x.reservation_id, x.status, x.wallet_id, x.currency, x.charged_nanos, x.excess_nanos, x.created_at,
  x.decided_at, x.decided_by, x.note, x.transaction_id`;

/** The excesses of all organizations, or of one, newest first. */
export function list(
  db: Db,
  { org_id, status }: { org_id?: string | undefined; status?: Excess['status'] | undefined },
  request: ListRequest,
): Promise<Page<Excess> | Part<Excess>> {
  const conditions = [
    ...(org_id ? ['x.org_id = :org_id'] : []),
    ...(status ? ['x.status = :status'] : []),
  ];
  return listOf(
    db,
    {
      name: 'settlement excess',
      select: `select ${columns}`,
      from: `from settlement_excess x where ${conditions.join(' and ') || 'true'}`,
      bindings: { org_id: org_id ?? null, status: status ?? null },
      id: 'x.id',
      created_at: 'x.created_at',
    },
    request,
  );
}

/** An excess, or `not_found`. */
export function get(db: Db, id: string): Promise<Excess> {
  const sql = `select ${columns} from settlement_excess x where x.id = :id`;
  return one<Excess>(db, sql, { id }, 'No excess');
}

/**
 * Charges an excess to the wallet of its reservation, or drops it. 409 `already_decided` the second
 * time.
 */
export async function decide(db: Db, { id, action, note, by }: Decision): Promise<Excess> {
  const { code } = await one<{ code: string | null }>(
    db,
    'select decide_excess(:id, :action, :note, :by) as code',
    { id, action, note: note ?? null, by },
  );
  if (code === 'already_decided')
    throw new AppError('already_decided', 'This excess was charged or dropped already.');
  if (code === 'amount_too_large')
    throw new AppError(
      'amount_too_large',
      'The wallet cannot hold so much debt. Drop the excess, or credit the wallet first.',
    );
  return get(db, id);
}
