import { Alert, Checkbox, Text, Textarea } from '@mantine/core';
import { notifications } from '@mantine/notifications';
import { useEffect, useState } from 'react';
import { call, Refusal } from '../api/client';
import { refresh } from '../api/queries';
import { FormModal } from '../parts/form-modal';
import { Money, moneyText } from '../parts/money';
import { wordsOfRefusal } from './refusals';
import type { Payment } from './words';

/**
 * Sends a top-up back to its buyer. If its credit was spent, the dialog says how much and asks
 * again: the wallet then goes into debt.
 */
export function RefundDialog({
  payment,
  opened,
  onClose,
}: {
  payment: Payment;
  opened: boolean;
  onClose: () => void;
}) {
  const [reason, setReason] = useState('');
  const [spent, setSpent] = useState<number>();
  const [into_debt, setIntoDebt] = useState(false);
  useEffect(() => {
    if (!opened) return;
    setReason('');
    setSpent(undefined);
    setIntoDebt(false);
  }, [opened]);
  const { id, currency, credited_amount, refunded_amount } = payment;
  const submit = async (idempotency_key: string) => {
    try {
      const { refund_status, refunded_amount: sent } = await call(
        'POST /api/admin/payments/refund',
        {
          body: { payment_session_id: id, reason, ...(into_debt ? { allow_negative: true } : {}) },
          idempotency_key,
        },
      );
      void refresh('/api/admin/payments', '/api/payments', '/api/wallets');
      const words = refund_status === 'pending' ? 'is on its way back' : 'went back to the buyer';
      notifications.show({ message: `${moneyText(sent, currency)} ${words}.` });
      onClose();
    } catch (refusal) {
      if (refusal instanceof Refusal && refusal.code === 'credit_spent')
        setSpent(Number(refusal.details.spent_amount));
      throw wordsOfRefusal(refusal, currency);
    }
  };
  return (
    <FormModal
      title="Refund this top-up"
      opened={opened}
      onClose={onClose}
      submit={submit}
      label="Refund"
      is_dangerous
      is_ready={reason.trim() !== '' && (spent === undefined || into_debt)}
    >
      <Text>
        All that can still go back is taken out of the wallet first, then sent to the buyer. Of{' '}
        <Money amount={credited_amount} currency={currency} />,{' '}
        <Money amount={refunded_amount} currency={currency} /> have gone back so far.
      </Text>
      <Textarea
        label="Reason"
        description="Kept for whoever asks later. The buyer is not told it."
        value={reason}
        onChange={(event) => setReason(event.currentTarget.value)}
        maxLength={255}
        autosize
        required
        data-autofocus
      />
      {spent !== undefined && (
        <Alert color="yellow" title="This money is not all there any more">
          <Text mb="xs">
            <Money amount={spent} currency={currency} /> of this top-up are spent or given away. A
            refund of all of it puts the wallet into debt by so much: its calls wait for money until
            somebody tops it up.
          </Text>
          <Checkbox
            label="Refund all of it, into debt"
            checked={into_debt}
            onChange={(event) => setIntoDebt(event.currentTarget.checked)}
          />
        </Alert>
      )}
    </FormModal>
  );
}
