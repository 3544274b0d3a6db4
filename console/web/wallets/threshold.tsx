import { Button } from '@mantine/core';
import { notifications } from '@mantine/notifications';
import { useState } from 'react';
import { call } from '../api/client';
import { refresh } from '../api/queries';
import { typedNumber } from '../base/typed';
import { AmountInput } from '../fields/amount-input';
import { FormModal } from '../parts/form-modal';
import { moneyText } from '../parts/money';
import type { WalletRow } from './words';

/** Sets below what a wallet is low, which is told to whoever is notified; empty: as of all. */
export function ThresholdButton({
  wallet,
  threshold_of_all,
}: {
  wallet: WalletRow;
  threshold_of_all: number | undefined;
}) {
  const { wallet_id: id, low_balance_threshold: own, currency } = wallet;
  const [is_open, setOpen] = useState(false);
  const [typed, setTyped] = useState<number | string>('');
  const amount = typedNumber(typed);
  const is_empty = typed === '';
  const open = () => {
    setTyped(own ?? '');
    setOpen(true);
  };
  const submit = async () => {
    const low_balance_threshold = is_empty ? null : (amount ?? null);
    await call('PUT /api/wallets/:id', { names: { id }, body: { low_balance_threshold } });
    void refresh('/api/wallets');
    notifications.show({ message: 'Low-balance alert saved.' });
    setOpen(false);
  };
  const of_all = threshold_of_all === undefined ? '' : ` ${moneyText(threshold_of_all, currency)}`;
  return (
    <>
      <Button variant="default" size="xs" onClick={open}>
        Low-balance alert
      </Button>
      <FormModal
        title={`When the wallet of ${wallet.owner_name} is low`}
        opened={is_open}
        onClose={() => setOpen(false)}
        submit={submit}
        label="Save"
        is_ready={is_empty || amount !== undefined}
      >
        <AmountInput
          label={`Low below, in ${currency}`}
          description={`Empty: below${of_all} as the organization's rules say.`}
          currency={currency}
          value={typed}
          onChange={setTyped}
          data-autofocus
        />
      </FormModal>
    </>
  );
}
