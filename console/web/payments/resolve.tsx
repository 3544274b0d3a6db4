import { Select, Text, Textarea } from '@mantine/core';
import { notifications } from '@mantine/notifications';
import { useEffect, useState } from 'react';
import { call } from '../api/client';
import { refresh } from '../api/queries';
import { typedNumber } from '../base/typed';
import { AmountInput } from '../fields/amount-input';
import { FormModal } from '../parts/form-modal';
import { Money } from '../parts/money';
import { wordsOfRefusal } from './refusals';
import { type AdminPayment, isRefundHanging, states } from './words';

const actions = {
  credit: 'credit what was taken',
  refund: 'send it back to the buyer',
  close: 'leave it as it is',
  refund_succeeded: 'the refund was made: the buyer has the money',
  refund_failed: 'the refund was not made: give the wallet its money again',
} as const;
type Action = keyof typeof actions;

/** What can be decided about a payment, in words. */
function choicesOf(payment: AdminPayment): { value: Action; label: string }[] {
  if (isRefundHanging(payment))
    return (['refund_succeeded', 'refund_failed'] as const).map((value) => ({
      value,
      label: actions[value],
    }));
  if (payment.status !== 'failed') return [{ value: 'close', label: 'end it: it has failed' }];
  return (['credit', 'refund', 'close'] as const).map((value) => ({
    value,
    label: actions[value],
  }));
}

/**
 * Decides about money that came in another amount or currency, or ends a payment or a refund that
 * hangs.
 */
export function ResolveDialog({
  payment,
  onClose,
}: {
  /** Undefined: the dialog is closed. */
  payment: AdminPayment | undefined;
  onClose: () => void;
}) {
  const [action, setAction] = useState<Action>();
  const [amount, setAmount] = useState<number | string>('');
  const [reason, setReason] = useState('');
  const id = payment?.id;
  // biome-ignore lint/correctness/useExhaustiveDependencies: another payment is another decision.
  useEffect(() => {
    setAction(undefined);
    setAmount('');
    setReason('');
  }, [id]);
  if (payment === undefined) return null;
  const { status, currency, captured_amount, captured_currency } = payment;
  const needs_amount = action === 'credit' && captured_currency !== currency;
  const submit = async (idempotency_key: string) => {
    if (action === undefined) return;
    const body = {
      action,
      reason,
      ...(needs_amount ? { amount: typedNumber(amount) } : {}),
    };
    try {
      const names = { id: payment.id };
      await call('POST /api/admin/payments/:id/resolve', { names, body, idempotency_key });
    } catch (refusal) {
      throw wordsOfRefusal(refusal, currency);
    }
    void refresh('/api/admin/payments', '/api/payments', '/api/wallets');
    notifications.show({ message: 'Decision saved.' });
    onClose();
  };
  return (
    <FormModal
      title="Decide about this payment"
      opened
      onClose={onClose}
      submit={submit}
      label="Decide"
      is_ready={
        action !== undefined &&
        reason.trim() !== '' &&
        (!needs_amount || (typedNumber(amount) ?? 0) > 0)
      }
    >
      <Text>
        Ordered: <Money amount={payment.amount} currency={currency} />.{' '}
        {captured_amount === null ? (
          states[status].means
        ) : (
          <>
            Taken: <Money amount={captured_amount} currency={captured_currency ?? currency} />.
          </>
        )}
      </Text>
      {isRefundHanging(payment) && (
        <Text size="sm">
          Look the refund up at the provider first. If it is made after all, the wallet follows.
        </Text>
      )}
      <Select
        label="What is to happen"
        data={choicesOf(payment)}
        value={action ?? null}
        onChange={(value) => setAction((value as Action | null) ?? undefined)}
        data-autofocus
      />
      {needs_amount && (
        <AmountInput
          label={`Credit in ${currency}`}
          description={`The buyer paid in ${captured_currency ?? 'another currency'}.`}
          currency={currency}
          value={amount}
          onChange={setAmount}
        />
      )}
      <Textarea
        label="Reason"
        description="Kept for whoever asks later. The buyer is not told it."
        value={reason}
        onChange={(event) => setReason(event.currentTarget.value)}
        maxLength={255}
        autosize
        required
      />
    </FormModal>
  );
}
