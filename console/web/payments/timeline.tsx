import { useQuery } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import { type Answer, call } from '../api/client';
import { nextOf, PART_ROWS, readWhole } from '../api/whole';
import { Money } from '../parts/money';
import { PersonName } from '../parts/names';
import { Failure } from '../parts/states';
import { Steps } from '../parts/timeline';
import { type AdminPayment, type Payment, providerWords, states } from './words';

type Entry = Answer<'GET /api/wallets/:id/transactions'>['transactions'][number];
type Kind = 'good' | 'bad' | 'waiting' | 'neutral' | 'info';
interface Step {
  at: string;
  title: ReactNode;
  detail?: ReactNode;
  kind: Kind;
}

/** What happened to a payment: what the ledger has of it, and how it stands. */
export function PaymentTimeline({ payment }: { payment: Payment & Partial<AdminPayment> }) {
  const credits = useEntries(payment, 'payment_credit');
  const refunds = useEntries(payment, 'payment_refund');
  const error = [credits, refunds].find(({ data }) => data === undefined)?.error;
  const readAgain = () => void Promise.all([credits.refetch(), refunds.refetch()]);
  if (error) return <Failure error={error} retry={readAgain} />;
  const entries = [...(credits.data ?? []), ...(refunds.data ?? [])];
  return <Steps label="What happened" steps={stepsOf(payment, entries)} />;
}

/** The entries of a payment in its wallet's ledger, which lie between its making and its change. */
function useEntries({ id, wallet_id, created_at, updated_at }: Payment, type: Entry['type']) {
  const to = new Date(Date.parse(updated_at) + 1_000).toISOString();
  return useQuery({
    queryKey: ['/api/wallets/:id/transactions', { id: wallet_id }, { of: id, type, to }],
    queryFn: async ({ signal }) => {
      const { items } = await readWhole<Entry>(
        async (cursor = 'first') => {
          const answer = await call('GET /api/wallets/:id/transactions', {
            names: { id: wallet_id },
            query: { type, from: created_at, to, cursor, per_page: PART_ROWS },
            signal,
          });
          return { items: answer.transactions, next: nextOf(answer) };
        },
        { signal },
      );
      return items.filter((one) => one.payment_session_id === id);
    },
  });
}

function stepsOf(payment: Payment & Partial<AdminPayment>, entries: readonly Entry[]): Step[] {
  const { currency, status, updated_at, error_message, provider_message } = payment;
  const steps: Step[] = [
    {
      at: payment.created_at,
      title: (
        <>
          {payment.user_id ? <PersonName id={payment.user_id} /> : 'A key without an owner'} started
          a checkout of <Money amount={payment.amount} currency={currency} />
        </>
      ),
      detail: `at ${providerWords(payment.provider)}, in the ${payment.surface}`,
      kind: 'info',
    },
    ...entries.map((entry) => entryStep(entry, currency)),
    ...(payment.refunds ?? []).map((refund) => refundStep(refund)),
  ];
  const ends = ['failed', 'canceled', 'expired', 'refunded'];
  if (ends.includes(status))
    steps.push({
      at: updated_at,
      title: states[status].means,
      detail: [error_message, provider_message && `The provider: ${provider_message}`]
        .filter(Boolean)
        .join(' '),
      kind: states[status].kind,
    });
  if (payment.resolution)
    steps.push({
      at: updated_at,
      title: `Decided: ${payment.resolution}`,
      detail: payment.resolution_note,
      kind: 'info',
    });
  steps.sort((a, b) => Date.parse(a.at) - Date.parse(b.at));
  const is_under_way = !ends.includes(status) && status !== 'completed';
  if (is_under_way)
    steps.push({ at: updated_at, title: states[status].means, kind: states[status].kind });
  return steps;
}

function entryStep({ created_at, type, amount, balance_after }: Entry, currency: string): Step {
  return {
    at: created_at,
    title: (
      <>
        <Money amount={Math.abs(amount)} currency={currency} /> {wordsOf(type, amount)}
      </>
    ),
    detail: (
      <>
        which had <Money amount={balance_after} currency={currency} /> then
      </>
    ),
    kind: amount > 0 ? 'good' : 'neutral',
  };
}

/** A refund that failed, or a dispute that was won, brings the money back. */
function wordsOf(type: Entry['type'], amount: number): string {
  if (type === 'payment_credit') return 'came into the wallet';
  return amount < 0 ? 'went out of the wallet' : 'came back into the wallet';
}

/** What became of a refund: one that the provider did not refuse was refused for spent credit. */
function refundWords(
  status: AdminPayment['refunds'][number]['status'],
  error_message: string | null,
): string {
  if (status === 'succeeded') return 'it went back to the buyer';
  if (status === 'pending') return 'it has left the wallet, and is not yet with the buyer';
  return error_message
    ? `the provider refused it, and the wallet has its money again: ${error_message}`
    : 'refused, as its credit had been spent; nothing left the wallet';
}

function refundStep({
  created_at,
  reason,
  requested_by,
  status,
  error_message,
  ended_by,
  end_note,
}: AdminPayment['refunds'][number]): Step {
  return {
    at: created_at,
    title: `A refund was asked for: ${reason}`,
    detail: (
      <>
        by {requested_by.startsWith('key_') ? 'an operator' : <PersonName id={requested_by} />}:{' '}
        {refundWords(status, error_message)}
        {ended_by && (
          <>
            ; so says {ended_by.startsWith('key_') ? 'an operator' : <PersonName id={ended_by} />}:{' '}
            {end_note}
          </>
        )}
      </>
    ),
    kind: status === 'failed' ? 'bad' : 'info',
  };
}
