import { Button, Text, TextInput } from '@mantine/core';
import { notifications } from '@mantine/notifications';
import { useEffect, useState } from 'react';
import { call } from '../api/client';
import { refresh } from '../api/queries';
import { typedNumber } from '../base/typed';
import { AmountInput } from '../fields/amount-input';
import { FormModal } from '../parts/form-modal';
import { Money } from '../parts/money';
import { useLast } from '../parts/use-last';
import { useCurrency, useMe } from '../session/me';
import { TEAMS, type Team } from './words';

/** Money that goes from a team to one of its members, or back. */
export interface TeamMove {
  way: 'allocate' | 'reclaim';
  member: { user_id: string; name: string; given_left: number | null };
}

const words = {
  allocate: { title: 'Give money of the team to', label: 'Give', done: 'has it now' },
  reclaim: { title: 'Take money for the team back from', label: 'Take back', done: 'gave it back' },
} as const;

/** What an admin of a team, or who bills, does with the money of a member. */
export function TeamMoneyButtons({
  member,
  onMove,
}: {
  member: TeamMove['member'];
  onMove: (move: TeamMove) => void;
}) {
  return (['allocate', 'reclaim'] as const).map((way) => (
    <Button
      key={way}
      size="compact-sm"
      variant="default"
      aria-label={`${words[way].label}: ${member.name}`}
      onClick={() => onMove({ way, member })}
    >
      {words[way].label}
    </Button>
  ));
}

/** Moves money between a team's wallet and a member's; the server knows what each has. */
export function TeamMoney({
  team,
  move,
  onClose,
}: {
  team: Team;
  /** Undefined: the dialog is closed. */
  move: TeamMove | undefined;
  onClose: () => void;
}) {
  const me = useMe();
  const id = me.acting_org ?? '';
  const currency = useCurrency();
  const shown = useLast(move);
  const [amount, setAmount] = useState<number | string>('');
  const [note, setNote] = useState('');
  useEffect(() => {
    if (move === undefined) return;
    setAmount('');
    setNote('');
  }, [move]);
  if (shown === undefined) return null;
  const { way, member } = shown;
  const { title, label, done } = words[way];
  const moved = typedNumber(amount) ?? 0;
  const submit = async (idempotency_key: string) => {
    await call(`POST /api/organizations/:id/teams/:team_id/${way}`, {
      names: { id, team_id: team.id },
      body: { user_id: member.user_id, amount: moved, ...(note ? { note } : {}) },
      idempotency_key,
    });
    void refresh(TEAMS, '/api/wallets', '/api/tickets', '/api/me');
    notifications.show({ message: `${member.name} ${done}.` });
    onClose();
  };
  return (
    <FormModal
      title={`${title} ${member.name}`}
      opened={move !== undefined}
      onClose={onClose}
      submit={submit}
      label={label}
      is_ready={moved > 0}
    >
      <AmountInput
        label={`Amount in ${currency}`}
        currency={currency}
        value={amount}
        onChange={setAmount}
        data-autofocus
      />
      {way === 'reclaim' && member.given_left !== null && (
        <Text size="sm">
          Left of what the team gave: <Money amount={member.given_left} currency={currency} />
        </Text>
      )}
      <TextInput
        label="Note"
        description="Optional; it stands in the ledger."
        value={note}
        onChange={(event) => setNote(event.currentTarget.value)}
        maxLength={1_000}
      />
    </FormModal>
  );
}
