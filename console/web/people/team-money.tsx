import { Button, TextInput } from '@mantine/core';
import { notifications } from '@mantine/notifications';
import { useQuery } from '@tanstack/react-query';
import { useEffect, useState } from 'react';
import { call } from '../api/client';
import { reading, refresh } from '../api/queries';
import { typedNumber } from '../base/typed';
import { AmountInput } from '../fields/amount-input';
import { FormModal } from '../parts/form-modal';
import { useLast } from '../parts/use-last';
import { may, useCurrency, useMe } from '../session/me';
import { AfterValues, type Side } from '../wallets/after';
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
  const balances = useBalances(team, shown?.member.user_id, move !== undefined);
  if (shown === undefined) return null;
  const { way, member } = shown;
  const { title, label, done } = words[way];
  const moved = typedNumber(amount) ?? 0;
  const into = way === 'reclaim' ? -moved : moved;
  const sides = [
    { id: 'team', name: `Team ${team.name}`, now: balances.team, by: -into },
    // Whoever does not bill sees of somebody else's wallet what the team gave alone.
    ...(balances.member === undefined
      ? []
      : [{ id: 'member', name: member.name, now: balances.member, by: into }]),
    // What is held or owed takes of a gift at once: what will be left of it nobody can say here.
    ...(member.given_left === null || way === 'allocate'
      ? []
      : [
          {
            id: 'given',
            name: `${member.name}, of the team's money`,
            now: member.given_left,
            by: into,
          },
        ]),
  ].filter((side): side is Side => side.now !== undefined);
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
      <TextInput
        label="Note"
        description="Optional; it stands in the ledger."
        value={note}
        onChange={(event) => setNote(event.currentTarget.value)}
        maxLength={1_000}
      />
      <AfterValues sides={sides} currency={currency} />
    </FormModal>
  );
}

/** What both sides have; of the member's wallet only who bills is told, and undefined otherwise. */
function useBalances(team: Team, user_id: string | undefined, is_open: boolean) {
  const bills = may(useMe(), 'org:billing');
  const team_query = { owner_type: 'team', team_id: team.id, per_page: 1 } as const;
  const user_query = { owner_type: 'user', user_id, per_page: 1 } as const;
  // What was read of another one must not stand under this name.
  const of_team = useQuery({
    ...reading('GET /api/wallets', { query: team_query }),
    placeholderData: () => undefined,
    enabled: is_open,
  });
  const of_member = useQuery({
    ...reading('GET /api/wallets', { query: user_query }),
    placeholderData: () => undefined,
    enabled: is_open && bills && user_id !== undefined,
  });
  // Whoever was never given money has no wallet.
  return {
    team: of_team.data && (of_team.data.wallets[0]?.balance ?? 0),
    member: of_member.data && (of_member.data.wallets[0]?.balance ?? 0),
  };
}
