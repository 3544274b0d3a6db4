import { fromWire } from '../domain/payments/currencies';
import { askJson, type Connection } from './a-client';
import type { ReportedDispute } from './provider';
import * as words from './words-a';
import { meaningOf } from './words-a';

// What buyers of provider A dispute. One dispute may be about several payments.

const NAME = 'payment_provider_a';

interface Money {
  currency_code: string;
  value: string;
}

interface Dispute {
  dispute_id: string;
  status: string;
  dispute_life_cycle_stage: string;
  dispute_amount: Money;
  disputed_transactions?: Disputed[] | null;
  dispute_outcome?: { outcome_code?: string; amount_refunded?: Money };
}

/** A transaction that a dispute is about; each may be another payment. */
interface Disputed {
  seller_transaction_id?: string;
  gross_amount?: Money;
  items?: { dispute_amount?: Money }[] | null;
}

const DISPUTES = '/v1/customer/disputes';

/** Disputes of a capture in which money has moved; null if the app lacks that feature. */
export async function disputesOf(
  connection: Connection,
  capture_id: string,
  signal: AbortSignal,
): Promise<ReportedDispute[] | null> {
  const filter = `disputed_transaction_id=${encodeURIComponent(capture_id)}&page_size=50`;
  const asked = await askJson(connection, `${DISPUTES}?${filter}`, { expected: [403], signal });
  if (asked === undefined) return null;
  const listed = (asked as { items?: Dispute[] }).items ?? [];
  const claims = listed.filter(
    (one) => meaningOf(words.stages, one.dispute_life_cycle_stage) === 'claim',
  );
  // Only the dispute's own page has its outcome and its refunds.
  return Promise.all(
    claims.map(async ({ dispute_id }) => {
      const path = `${DISPUTES}/${encodeURIComponent(dispute_id)}`;
      return disputeOf((await askJson(connection, path, { signal })) as Dispute, capture_id);
    }),
  );
}

function disputeOf(page: Dispute, capture_id: string): ReportedDispute {
  const { dispute_outcome: outcome } = page;
  const isOver = meaningOf(words.disputes, page.status) === 'by outcome';
  const status = isOver ? meaningOf(words.outcomes, outcome?.outcome_code) : 'open';
  const lost = status === 'lost' ? outcome?.amount_refunded : undefined;
  const { currency_code, value } = lost ?? page.dispute_amount;
  return {
    id: page.dispute_id,
    status,
    amount_nanos: shareOf(page, capture_id, fromWire(NAME, currency_code, value)),
    currency: currency_code,
    refund_ids: [...new Set(namedIn(page))],
  };
}

/**
 * A payment's share of what its dispute has taken in all: as the amounts that are disputed of each
 * transaction, or else as the transactions' own; in equal parts if neither is told of each. In the
 * order of their ids, so that the shares are the sum whatever the order of the list.
 */
function shareOf(page: Dispute, capture_id: string, total_nanos: bigint): bigint {
  const listed = (Array.isArray(page.disputed_transactions) ? page.disputed_transactions : [])
    .filter((one) => one?.seller_transaction_id)
    .sort((a, b) => (String(a.seller_transaction_id) < String(b.seller_transaction_id) ? -1 : 1));
  const weights =
    weighed(listed.map(({ items }) => (items ?? []).map(({ dispute_amount }) => dispute_amount))) ??
    weighed(listed.map(({ gross_amount }) => [gross_amount])) ??
    listed.map(() => 1n);
  const sum = weights.reduce((all, one) => all + one, 0n);
  const upTo = (count: number) =>
    (total_nanos * weights.slice(0, count).reduce((all, one) => all + one, 0n)) / sum;
  const places = listed.flatMap(({ seller_transaction_id }, n) =>
    seller_transaction_id === capture_id ? [n] : [],
  );
  // A page that does not name the payment was found by it all the same.
  if (places.length === 0) return total_nanos;
  return places.reduce((share, n) => share + upTo(n + 1) - upTo(n), 0n);
}

/** What each transaction comes to; undefined if that is not told of each, in one currency. */
function weighed(amounts: (Money | undefined)[][]): bigint[] | undefined {
  const all = amounts.flat();
  const currency = all[0]?.currency_code;
  if (amounts.some((of_one) => of_one.length === 0)) return undefined;
  if (currency === undefined || all.some((one) => one?.currency_code !== currency))
    return undefined;
  const sums = amounts.map((of_one) =>
    of_one.reduce((sum, one) => sum + fromWire(NAME, currency, (one as Money).value), 0n),
  );
  return sums.every((one) => one > 0n) ? sums : undefined;
}

/** The `refund_ids` of a dispute's page, which each of its evidences may have. */
function namedIn(page: unknown): string[] {
  if (page === null || typeof page !== 'object') return [];
  return Object.entries(page).flatMap(([name, value]) => {
    if (name !== 'refund_ids' || !Array.isArray(value)) return namedIn(value);
    return value.map((one) => String(one?.refund_id ?? one));
  });
}
