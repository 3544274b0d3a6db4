import type { Entry } from './csv';

export const entryTypes = [
  'credit',
  'reservation',
  'settlement',
  'allocation_in',
  'allocation_out',
  'payment_credit',
  'payment_refund',
] as const;

export const typeWords: Record<(typeof entryTypes)[number], string> = {
  credit: 'Credited by hand',
  reservation: 'Held for a call',
  settlement: 'Call settled',
  allocation_in: 'Received',
  allocation_out: 'Given',
  payment_credit: 'Top-up',
  payment_refund: 'Refund',
};

type Told = Pick<Entry, 'type' | 'phase' | 'description'>;

/** What an entry of a ledger is: `Call settled`. */
export function entryWords(entry: Told): string {
  return settlementWords(entry) ?? typeWords[entry.type];
}

/** A settlement that is not the usual end of a call. */
export function settlementWords({ type, phase, description }: Told): string | undefined {
  if (type !== 'settlement') return undefined;
  if (phase === 'late') return 'Charged after its hold expired';
  if (phase === 'excess') return 'Charged beyond the hold';
  // The end of a hold has no phase of its own: the ledger describes it so.
  return phase === 'close' && description === 'hold expired'
    ? 'Hold expired, money returned'
    : undefined;
}
