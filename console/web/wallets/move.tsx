import { TextInput } from '@mantine/core';
import { notifications } from '@mantine/notifications';
import { useQuery } from '@tanstack/react-query';
import { useEffect, useState } from 'react';
import { call } from '../api/client';
import { reading, refresh } from '../api/queries';
import { typedNumber } from '../base/typed';
import { AmountInput } from '../fields/amount-input';
import { FormModal } from '../parts/form-modal';
import { moneyText } from '../parts/money';
import { AfterValues, type Side } from './after';
import type { WalletRow } from './words';

export type Move = 'credit' | 'allocate' | 'reclaim';

const words = {
  credit: { title: 'Credit', label: 'Credit', done: 'was credited to' },
  allocate: { title: 'Give money to', label: 'Give', done: 'was given to' },
  reclaim: { title: 'Take money back from', label: 'Take back', done: 'was taken back from' },
} as const;

/**
 * Moves money into or out of a wallet. Both sides' balances after it stand there before anybody
 * presses.
 */
export function MoveDialog({
  move,
  wallet,
  bank,
  onClose,
}: {
  /** Undefined: the dialog is closed. */
  move: Move | undefined;
  wallet: WalletRow | undefined;
  /** The organization's wallet, which is the other side. */
  bank: WalletRow | undefined;
  onClose: () => void;
}) {
  const [amount, setAmount] = useState<number | string>('');
  const [note, setNote] = useState('');
  useEffect(() => {
    if (move === undefined) return;
    setAmount('');
    setNote('');
  }, [move]);
  const own = usePresent(wallet, move !== undefined);
  const other = usePresent(bank, move !== undefined);
  if (wallet === undefined || own === undefined) return null;
  const { title, label, done } = words[move ?? 'credit'];
  const moved = typedNumber(amount) ?? 0;
  const submit = async (idempotency_key: string) => {
    if (move === undefined) return;
    await send(move, wallet, { amount: moved, note }, idempotency_key);
    void refresh('/api/wallets', '/api/tickets', '/api/me');
    const sum = moneyText(moved, wallet.currency);
    notifications.show({ message: `${sum} ${done} ${wallet.owner_name}.` });
    onClose();
  };
  return (
    <FormModal
      title={`${title} ${wallet.owner_name}`}
      opened={move !== undefined}
      onClose={onClose}
      submit={submit}
      label={label}
      is_ready={moved > 0}
    >
      <AmountInput
        label={`Amount in ${wallet.currency}`}
        currency={wallet.currency}
        value={amount}
        onChange={setAmount}
        data-autofocus
      />
      <TextInput
        label="Note"
        description="Optional; it stands in the ledger."
        value={note}
        onChange={(event) => setNote(event.currentTarget.value)}
        maxLength={1_000}
      />
      <AfterValues
        sides={sidesOf({ move, wallet: own, bank: other, moved })}
        currency={wallet.currency}
      />
    </FormModal>
  );
}

/** A wallet as it is now, and not as it was when its row was pressed. A first gift has none yet. */
function usePresent(wallet: WalletRow | undefined, is_open: boolean): WalletRow | undefined {
  const id = wallet?.wallet_id ?? '';
  const { data } = useQuery({
    ...reading('GET /api/wallets/:id', { names: { id } }),
    enabled: is_open && id !== '',
    refetchInterval: 5_000,
  });
  return data ?? wallet;
}

function sidesOf({
  move,
  wallet,
  bank,
  moved,
}: {
  move: Move | undefined;
  wallet: WalletRow;
  bank: WalletRow | undefined;
  moved: number;
}): Side[] {
  const into = move === 'reclaim' ? -moved : moved;
  const own = { id: 'own', name: wallet.owner_name, now: wallet.balance, by: into };
  if (move === 'credit' || bank === undefined) return [own];
  return [own, { id: 'bank', name: bank.owner_name, now: bank.balance, by: -into }];
}

function send(
  move: Move,
  wallet: WalletRow,
  { amount, note }: { amount: number; note: string },
  idempotency_key: string,
): Promise<unknown> {
  const id = wallet.owner_team_id ?? wallet.owner_user_id ?? undefined;
  if (move === 'credit') {
    const target = { target_wallet_owner_type: wallet.owner_type, target_wallet_owner_id: id };
    const body = { ...target, amount, ...(note ? { description: note } : {}) };
    return call('POST /api/wallets/credit', { body, idempotency_key });
  }
  const owner = wallet.owner_type === 'team' ? { team_id: id } : { user_id: id };
  const body = { ...owner, amount, ...(note ? { note } : {}) };
  if (move === 'allocate') return call('POST /api/wallets/allocate', { body, idempotency_key });
  return call('POST /api/wallets/reclaim', { body, idempotency_key });
}
