import { Group, Select, Stack } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { call } from '../api/client';
import { reading } from '../api/queries';
import { nextOf, PART_ROWS, type ReadPart } from '../api/whole';
import { DayRange, type Days, momentsOf } from '../fields/day-range';
import { FilterInput } from '../fields/filter-input';
import { CsvButton } from '../parts/csv';
import { type Column, DataTable } from '../parts/data-table';
import { AppLink } from '../parts/link';
import { Money } from '../parts/money';
import { PersonName } from '../parts/names';
import { Empty } from '../parts/states';
import { Time } from '../parts/time';
import { useZone } from '../session/me';
import { type Entry, ledgerCsv } from './csv';
import { entryTypes, entryWords, typeWords } from './entry-words';

/** Which entries of a ledger. */
export interface LedgerFilters extends Days {
  type?: (typeof entryTypes)[number] | undefined;
  model?: string | undefined;
  request_id?: string | undefined;
  cursor?: string | undefined;
}

/** The entries of a wallet, each with the balance after it. */
export function Ledger({
  id,
  currency,
  filters,
  set,
}: {
  id: string;
  currency: string;
  filters: LedgerFilters;
  set: (change: LedgerFilters) => void;
}) {
  const { type, model, request_id, cursor = 'first' } = filters;
  const asked = { type, model, request_id, ...momentsOf(filters, useZone()) };
  const query = useQuery({
    ...reading('GET /api/wallets/:id/transactions', {
      names: { id },
      query: { ...asked, cursor, per_page: 50 },
    }),
    refetchInterval: 30_000,
  });
  const read: ReadPart<Entry> = async (place = 'first') => {
    const answer = await call('GET /api/wallets/:id/transactions', {
      names: { id },
      query: { ...asked, cursor: place, per_page: PART_ROWS },
    });
    return { items: answer.transactions, next: nextOf(answer) };
  };
  return (
    <Stack>
      <Group gap="xs" align="flex-end">
        <Select
          label="Kind"
          placeholder="any"
          data={entryTypes.map((value) => ({ value, label: typeWords[value] }))}
          value={type ?? null}
          onChange={(value) => set({ type: (value ?? undefined) as 'credit' | undefined })}
          clearable
          clearButtonProps={{ 'aria-label': 'Show entries of any kind' }}
          w={180}
        />
        <FilterInput
          label="Model"
          value={model}
          onFilter={(words) => set({ model: words })}
          w={180}
        />
        <FilterInput
          label="Call"
          placeholder="req_…"
          value={request_id}
          onFilter={(words) => set({ request_id: words })}
          w={180}
        />
        <DayRange days={filters} set={set} />
        <CsvButton file="ledger" read={read} columns={ledgerCsv(currency)} />
      </Group>
      <DataTable
        label="Ledger"
        query={query}
        itemsOf={({ transactions }) => transactions}
        keyOf={(entry) => entry.id}
        columns={columnsOf(currency)}
        cursor={filters.cursor}
        onCursor={(next) => set({ cursor: next })}
        empty={<Empty title="No entries">Money that comes or goes appears here at once.</Empty>}
      />
    </Stack>
  );
}

function columnsOf(currency: string): Column<Entry>[] {
  return [
    { title: 'When', cell: ({ created_at }) => <Time at={created_at} /> },
    { title: 'What', cell: (entry) => <What entry={entry} /> },
    {
      title: 'Amount',
      is_number: true,
      cell: ({ amount }) => <Money amount={amount} currency={currency} is_signed />,
    },
    {
      title: 'Cost',
      is_number: true,
      cell: ({ actual_cost }) => <Money amount={actual_cost} currency={currency} />,
    },
    {
      title: 'Balance after',
      is_number: true,
      cell: ({ balance_after }) => <Money amount={balance_after} currency={currency} />,
    },
    {
      title: 'Who',
      // A call is its caller's, whoever has approved it; all else is of who made it.
      cell: ({ type, actor, user_id, made_by }) => {
        const is_call = type === 'reservation' || type === 'settlement';
        if (!is_call && made_by?.name) return <span className="wrap">{made_by.name}</span>;
        const id = is_call ? (user_id ?? actor) : (made_by?.id ?? actor ?? user_id);
        return id ? <PersonName id={id} /> : <span>–</span>;
      },
    },
    {
      title: 'Of',
      cell: ({ request_id, payment_session_id, cost_ticket_id, approval }) => {
        const ticket = approval?.cost_ticket_id ?? cost_ticket_id;
        if (request_id) return <AppLink to={`/requests/${request_id}`}>the call</AppLink>;
        if (payment_session_id)
          return <AppLink to={`/payments/${payment_session_id}`}>the payment</AppLink>;
        if (ticket) return <AppLink to={`/tickets/${ticket}`}>the ticket</AppLink>;
        return <span>–</span>;
      },
    },
  ];
}

function What({ entry }: { entry: Entry }) {
  const { type, model, description, approval, counterpart, payment_session_id } = entry;
  // An approval names its ticket by a link, and its person by name; a payment is linked too.
  const said = approval ? 'a ticket was approved' : (model ?? description);
  const more = payment_session_id ? null : said;
  return (
    <span className="wrap">
      {entryWords(entry)}
      {counterpart && (
        <>
          {type === 'allocation_in' ? ' from ' : ' to '}
          <AppLink to={`/wallets/${counterpart.wallet_id}`}>{counterpart.owner_name}</AppLink>
        </>
      )}
      {more ? `: ${more}` : ''}
    </span>
  );
}
