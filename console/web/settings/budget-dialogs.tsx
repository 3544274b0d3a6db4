import { Select, Text } from '@mantine/core';
import { useDebouncedCallback } from '@mantine/hooks';
import { useQuery } from '@tanstack/react-query';
import { useEffect, useState } from 'react';
import { type Answer, call } from '../api/client';
import { refusedText } from '../api/intents';
import { reading, refresh } from '../api/queries';
import { changedIn } from '../base/changed';
import { typedNumber } from '../base/typed';
import { AmountInput } from '../fields/amount-input';
import { FormModal } from '../parts/form-modal';
import { may, useMe } from '../session/me';

export type Budget = Extract<Answer<'GET /api/budgets'>, { next: unknown }>['budgets'][number];
type OwnerType = Budget['owner_type'];

const owners: { value: OwnerType; label: string }[] = [
  { value: 'organization', label: 'the organization' },
  { value: 'team', label: 'a team' },
  { value: 'user', label: 'a person' },
  { value: 'key', label: 'a key' },
];
export const windows: { value: Budget['window']; label: string }[] = [
  { value: 'hour', label: 'hour' },
  { value: 'day', label: 'day' },
  { value: 'week', label: 'week' },
  { value: 'month', label: 'month' },
  { value: 'life', label: 'life, for ever' },
];
const beyond = [
  { value: 'refuse', label: 'is refused' },
  { value: 'ticket', label: 'waits for an approval' },
];

/** Makes a budget, or changes one; what it counts stays. */
export function BudgetDialog({
  opened,
  budget,
  currency,
  onClose,
}: {
  opened: boolean;
  /** The one that is changed; undefined: a new one. */
  budget: Budget | undefined;
  currency: string;
  onClose: () => void;
}) {
  const me = useMe();
  const [owner_type, setType] = useState<OwnerType>('team');
  const [owner_id, setOwner] = useState<string | null>(null);
  const [limit, setLimit] = useState<number | string>('');
  const typed = typedNumber(limit);
  const [window, setWindow] = useState<Budget['window']>('month');
  const [on_exceed, setBeyond] = useState<Budget['on_exceed']>('refuse');
  useEffect(() => {
    if (!opened) return;
    setOwner(null);
    setLimit(budget?.limit ?? '');
    setWindow(budget?.window ?? 'month');
    setBeyond(budget?.on_exceed ?? 'refuse');
  }, [opened, budget]);
  const submit = async (idempotency_key: string) => {
    if (typed === undefined) return;
    const said = { limit: typed, window, on_exceed };
    if (budget)
      await call('PUT /api/budgets/:id', {
        names: { id: budget.id },
        body: changedIn(said, budget),
        idempotency_key,
      });
    else
      await call('POST /api/budgets', {
        body: { ...said, owner_type, ...(owner_id === null ? {} : { owner_id }) },
        idempotency_key,
      });
    void refresh('/api/budgets', '/api/tickets');
    onClose();
  };
  const has_owner = budget !== undefined || owner_type === 'organization' || owner_id !== null;
  return (
    <FormModal
      title={budget ? `The budget of ${budget.owner_name}` : 'A new budget'}
      opened={opened}
      onClose={onClose}
      submit={submit}
      label={budget ? 'Change' : 'Make the budget'}
      is_ready={typed !== undefined && has_owner}
    >
      {budget === undefined && (
        <>
          <Select
            label="Applies to"
            data={may(me, 'tokens:write') ? owners : owners.filter(({ value }) => value !== 'key')}
            value={owner_type}
            onChange={(value) => {
              setType((value ?? 'team') as OwnerType);
              setOwner(null);
            }}
            allowDeselect={false}
          />
          {owner_type !== 'organization' && (
            <OwnerSelect key={owner_type} owner_type={owner_type} {...{ owner_id, setOwner }} />
          )}
        </>
      )}
      <AmountInput
        label={`Limit in ${currency}`}
        currency={currency}
        value={limit}
        onChange={setLimit}
        required
      />
      <Select
        label="Per"
        data={windows}
        value={window}
        onChange={(value) => setWindow((value ?? 'month') as Budget['window'])}
        allowDeselect={false}
      />
      <Select
        label="Calls beyond it"
        data={beyond}
        value={on_exceed}
        onChange={(value) => setBeyond((value ?? 'refuse') as Budget['on_exceed'])}
        allowDeselect={false}
      />
      <Text size="sm" c="dimmed">
        Only a budget of the person binds what a person costs in all. A larger limit lets calls that
        wait go on.
      </Text>
    </FormModal>
  );
}

/** A team, a person or a key, sought at the server by name. */
function OwnerSelect({
  owner_type,
  owner_id,
  setOwner,
}: {
  owner_type: Exclude<OwnerType, 'organization'>;
  owner_id: string | null;
  setOwner: (id: string | null) => void;
}) {
  const id = useMe().acting_org ?? '';
  const [q, setQ] = useState('');
  const [chosen, setChosen] = useState<{ value: string; label: string } | null>(null);
  const search = useDebouncedCallback(setQ, 250);
  const asked = { q, cursor: 'first', per_page: 20 } as const;
  const teams = useQuery({
    ...reading('GET /api/organizations/:id/teams', {
      names: { id },
      query: { ...asked, status: 'active', sort: 'name' },
    }),
    enabled: owner_type === 'team',
  });
  const people = useQuery({
    ...reading('GET /api/organizations/:id/members', {
      names: { id },
      query: { ...asked, sort: 'name' },
    }),
    enabled: owner_type === 'user',
  });
  const keys = useQuery({
    ...reading('GET /api/keys', { query: { ...asked, status: 'active', type: 'gateway' } }),
    enabled: owner_type === 'key',
  });
  const { error } = { team: teams, user: people, key: keys }[owner_type];
  const found = {
    team: teams.data?.teams.map((one) => ({ value: one.id, label: one.name })),
    user: people.data?.members.map((one) => ({ value: one.user_id, label: one.name })),
    key: keys.data?.tokens.map((one) => ({ value: one.id, label: one.name })),
  }[owner_type];
  // A search for others leaves the name of what is chosen in the field.
  const is_listed = owner_id === null || found?.some(({ value }) => value === owner_id);
  return (
    <Select
      label="Which"
      placeholder="Search by name"
      data={[...(is_listed || chosen === null ? [] : [chosen]), ...(found ?? [])]}
      value={owner_id}
      onChange={(id, option) => {
        setOwner(id);
        setChosen(option);
      }}
      onSearchChange={search}
      filter={({ options }) => options}
      searchable
      nothingFoundMessage={found === undefined ? 'Not read yet' : 'Nothing has this name'}
      error={error ? refusedText(error) : undefined}
      required
    />
  );
}
