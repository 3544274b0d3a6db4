import { Button, Group, Progress, Select, Text } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { call } from '../api/client';
import { reading, refresh } from '../api/queries';
import { nextOf, PART_ROWS, type ReadPart } from '../api/whole';
import { amountOf, decimalText, nanosOf } from '../base/decimals';
import { FilterInput } from '../fields/filter-input';
import { windowWords } from '../fields/window-select';
import { CsvButton } from '../parts/csv';
import { type Column, DataTable } from '../parts/data-table';
import { FormModal } from '../parts/form-modal';
import { AppLink } from '../parts/link';
import { Money, moneyText } from '../parts/money';
import { Empty } from '../parts/states';
import { Time } from '../parts/time';
import { may, useCurrency, useMe } from '../session/me';
import { ownerWords } from '../tickets/words';
import { type Budget, BudgetDialog } from './budget-dialogs';

export interface BudgetFilters {
  q?: string | undefined;
  owner_type?: Budget['owner_type'] | undefined;
  cursor?: string | undefined;
}

const columns: Column<Budget>[] = [
  {
    title: 'Of',
    cell: ({ owner_type, owner_name }) => (
      <span className="wrap">
        {ownerWords(owner_type)} {owner_name}
      </span>
    ),
  },
  { title: 'Used', cell: (budget) => <Used budget={budget} /> },
  {
    title: 'Left',
    cell: ({ remaining, currency }) => <Money amount={remaining} currency={currency} />,
    is_number: true,
  },
  {
    title: 'Resets',
    cell: ({ resets_at }) => (resets_at === null ? 'never' : <Time at={resets_at} />),
  },
  {
    title: 'Beyond it',
    cell: ({ on_exceed }) => (on_exceed === 'ticket' ? 'waits for an approval' : 'is refused'),
  },
];

/** What keys, people, teams and the organization may cost in a window. */
export function Budgets({
  filters,
  set,
}: {
  filters: BudgetFilters;
  set: (change: BudgetFilters) => void;
}) {
  const me = useMe();
  const is_manager = may(me, 'org:billing');
  const currency = useCurrency();
  const { q, owner_type, cursor = 'first' } = filters;
  const query = useQuery({
    ...reading('GET /api/budgets', { query: { q, owner_type, cursor, per_page: 50 } }),
    refetchInterval: 30_000,
  });
  const read: ReadPart<Budget> = async (place = 'first') => {
    const page = { cursor: place, per_page: PART_ROWS };
    const answer = await call('GET /api/budgets', { query: { q, owner_type, ...page } });
    return { items: answer.budgets, next: nextOf(answer) };
  };
  const [changing, setChanging] = useState<Budget>();
  const [is_making, setMaking] = useState(false);
  const [deleting, setDeleting] = useState<Budget>();
  const remove = async () => {
    if (deleting === undefined) return;
    await call('DELETE /api/budgets/:id', { names: { id: deleting.id } });
    void refresh('/api/budgets');
    setDeleting(undefined);
  };
  return (
    <>
      <Group gap="xs" align="flex-end" mb="sm">
        <FilterInput label="Name" value={q} onFilter={(q) => set({ q })} w={200} />
        <Select
          label="Of"
          placeholder="anybody"
          data={(['organization', 'team', 'user', 'key'] as const).map((value) => ({
            value,
            label: ownerWords(value),
          }))}
          value={owner_type ?? null}
          onChange={(value) => set({ owner_type: (value ?? undefined) as Budget['owner_type'] })}
          clearable
          clearButtonProps={{ 'aria-label': 'Show budgets of anybody' }}
          w={180}
        />
        <CsvButton file="budgets" read={read} columns={csv} />
        {is_manager && <Button onClick={() => setMaking(true)}>New budget</Button>}
      </Group>
      <DataTable
        label="Budgets"
        query={query}
        itemsOf={({ budgets }) => budgets}
        keyOf={({ id }) => id}
        columns={columns}
        cursor={filters.cursor}
        onCursor={(next) => set({ cursor: next })}
        empty={<Empty title="No budget">A budget bounds what calls may cost in a window.</Empty>}
        actions={
          is_manager
            ? (budget) =>
                // The budget of a key that is its own bound is changed with the key.
                budget.is_max_budget ? (
                  <AppLink to="/keys" search={{ q: budget.owner_name, type: 'gateway' }}>
                    Change the key
                  </AppLink>
                ) : (
                  <>
                    <Button size="compact-sm" variant="default" onClick={() => setChanging(budget)}>
                      Change
                    </Button>
                    <Button size="compact-sm" variant="default" onClick={() => setDeleting(budget)}>
                      Delete
                    </Button>
                  </>
                )
            : undefined
        }
      />
      <BudgetDialog
        opened={is_making || changing !== undefined}
        budget={changing}
        currency={changing?.currency ?? currency}
        onClose={() => {
          setMaking(false);
          setChanging(undefined);
        }}
      />
      <FormModal
        title={`Delete the budget of ${deleting?.owner_name ?? ''}`}
        opened={deleting !== undefined}
        onClose={() => setDeleting(undefined)}
        submit={remove}
        label="Delete"
        is_dangerous
      >
        <Text>Calls are no longer bound by it, from the next one on.</Text>
      </FormModal>
    </>
  );
}

function Used({ budget }: { budget: Budget }) {
  const { spent, held, limit, raised, window, currency } = budget;
  const room = amountOf(nanosOf(limit) + nanosOf(raised));
  const used = amountOf(nanosOf(spent) + nanosOf(held));
  const share = room === 0 ? 100 : Math.min(100, (used / room) * 100);
  const words = `${moneyText(used, currency)} of ${moneyText(room, currency)}`;
  return (
    <div>
      <Text size="sm" className="figures">
        <Money amount={used} currency={currency} /> of <Money amount={limit} currency={currency} />{' '}
        {windowWords(window)}
        {raised > 0 && (
          <>
            {', raised once by '}
            <Money amount={raised} currency={currency} />
          </>
        )}
      </Text>
      <Progress value={share} size="sm" aria-label={words} color={share >= 90 ? 'red' : 'indigo'} />
    </div>
  );
}

const csv = [
  { title: 'owner_type', text: ({ owner_type }: Budget) => owner_type },
  { title: 'owner', text: ({ owner_name }: Budget) => owner_name },
  { title: 'window', text: ({ window }: Budget) => window },
  { title: 'limit', text: ({ limit }: Budget) => decimalText(limit) },
  { title: 'raised', text: ({ raised }: Budget) => decimalText(raised) },
  { title: 'spent', text: ({ spent }: Budget) => decimalText(spent) },
  { title: 'held', text: ({ held }: Budget) => decimalText(held) },
  { title: 'remaining', text: ({ remaining }: Budget) => decimalText(remaining) },
  { title: 'currency', text: ({ currency }: Budget) => currency },
];
