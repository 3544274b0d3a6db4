import { Group, Select, Stack, Tabs } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useParams } from '@tanstack/react-router';
import type { Answer } from '../api/client';
import { reading } from '../api/queries';
import { serverNow } from '../base/clock';
import { FilterInput } from '../fields/filter-input';
import { oneOf, text, useFilters } from '../fields/filters';
import { State } from '../parts/badge';
import { CopyId } from '../parts/copy-id';
import { type Column, DataTable } from '../parts/data-table';
import { NotSeen } from '../parts/guarded';
import { AppLink } from '../parts/link';
import { Money } from '../parts/money';
import { PersonName } from '../parts/names';
import { Page } from '../parts/page';
import { Empty, Failure, Loading } from '../parts/states';
import { Countdown, Time } from '../parts/time';
import { may, useMe } from '../session/me';
import { ThresholdButton } from '../wallets/threshold';
import { standing } from '../wallets/words';
import { useThreshold } from './wallets';

type Entry = Answer<'GET /api/wallets/:id/transactions'>['transactions'][number];
type Hold = Answer<'GET /api/wallets/:id/reservations'>['reservations'][number];

const types = [
  'credit',
  'reservation',
  'settlement',
  'allocation_in',
  'allocation_out',
  'payment_credit',
  'payment_refund',
] as const;
const words: Record<(typeof types)[number], string> = {
  credit: 'Credited by hand',
  reservation: 'Held for a call',
  settlement: 'Call settled',
  allocation_in: 'Received',
  allocation_out: 'Given away',
  payment_credit: 'Top-up',
  payment_refund: 'Refund',
};
const shape = {
  tab: oneOf('ledger', 'holds'),
  type: oneOf(...types),
  model: text,
  request_id: text,
  cursor: text,
};

/** One wallet: its balance, its ledger with the balance after each entry, and its open holds. */
export function Wallet() {
  const { id = '' } = useParams({ strict: false }) as { id?: string };
  const [filters, set] = useFilters(shape);
  const threshold = useThreshold();
  const bills = may(useMe(), 'org:billing');
  const { data, error, refetch } = useQuery({
    ...reading('GET /api/wallets/:id', { names: { id } }),
    refetchInterval: 30_000,
  });
  if (error && data === undefined)
    return (
      <Page title="Wallet">
        <Failure error={error} retry={() => void refetch()} />
      </Page>
    );
  if (data === undefined) return <Loading />;
  return (
    <Page
      title={`Wallet of ${data.owner_name}`}
      about={<CopyId value={id} />}
      actions={bills && <ThresholdButton wallet={data} threshold_of_all={threshold} />}
    >
      <Group gap="xl" align="flex-start">
        <Stack gap={0}>
          <span>Can be spent</span>
          <Money amount={data.balance} currency={data.currency} size="1.75rem" fw={700} />
        </Stack>
        <Stack gap={0}>
          <span>Held for calls</span>
          <Money amount={data.reserved} currency={data.currency} size="1.75rem" />
        </Stack>
        <State {...standing(data, threshold)} />
      </Group>
      <Tabs
        value={filters.tab ?? 'ledger'}
        onChange={(tab) => set({ tab: (tab ?? 'ledger') as 'ledger' })}
        keepMounted={false}
      >
        <Tabs.List>
          <Tabs.Tab value="ledger">Ledger</Tabs.Tab>
          {bills && <Tabs.Tab value="holds">Open holds</Tabs.Tab>}
        </Tabs.List>
        <Tabs.Panel value="ledger" pt="md">
          <Ledger id={id} currency={data.currency} filters={filters} set={set} />
        </Tabs.Panel>
        <Tabs.Panel value="holds" pt="md">
          {bills ? (
            <Holds id={id} filters={filters} set={set} />
          ) : (
            <NotSeen rights={['org:billing']} />
          )}
        </Tabs.Panel>
      </Tabs>
    </Page>
  );
}

type FilterProps = {
  filters: ReturnType<typeof useFilters<typeof shape>>[0];
  set: ReturnType<typeof useFilters<typeof shape>>[1];
};

function Ledger({ id, currency, filters, set }: { id: string; currency: string } & FilterProps) {
  const { type, model, request_id, cursor = 'first' } = filters;
  const query = useQuery(
    reading('GET /api/wallets/:id/transactions', {
      names: { id },
      query: { type, model, request_id, cursor, per_page: 50 },
    }),
  );
  return (
    <Stack>
      <Group gap="xs" align="flex-end">
        <Select
          label="Kind"
          placeholder="any"
          data={types.map((value) => ({ value, label: words[value] }))}
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
      cell: ({ type, actor, user_id }) => {
        const is_call = type === 'reservation' || type === 'settlement';
        const id = is_call ? (user_id ?? actor) : (actor ?? user_id);
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
  const { type, model, description, approval } = entry;
  // An approval names its ticket by a link, and its person by name.
  const more = approval ? 'a ticket was approved' : (model ?? description);
  return (
    <span className="wrap">
      {words[type]}
      {more ? `: ${more}` : ''}
    </span>
  );
}

function Holds({ id, filters, set }: { id: string } & FilterProps) {
  const query = useQuery({
    ...reading('GET /api/wallets/:id/reservations', {
      names: { id },
      query: { status: 'open', cursor: filters.cursor ?? 'first', per_page: 50 },
    }),
    refetchInterval: 10_000,
  });
  return (
    <DataTable
      label="Open holds"
      query={query}
      itemsOf={({ reservations }) => reservations}
      keyOf={({ reservation_id }) => reservation_id}
      columns={holdColumns}
      cursor={filters.cursor}
      onCursor={(cursor) => set({ cursor })}
      empty={
        <Empty title="Nothing is held">Calls under way hold what they may cost at most.</Empty>
      }
    />
  );
}

const holdColumns: Column<Hold>[] = [
  { title: 'Since', cell: ({ created_at }) => <Time at={created_at} /> },
  { title: 'Model', cell: ({ model }) => model },
  {
    title: 'Held',
    is_number: true,
    cell: ({ reserved_amount, currency }) => <Money amount={reserved_amount} currency={currency} />,
  },
  {
    title: 'Given back',
    cell: ({ expires_at }) => <Countdown until={expires_at} now_ms={serverNow} />,
  },
  { title: 'Who', cell: ({ user_id }) => <PersonName id={user_id} /> },
  {
    title: 'Of',
    cell: ({ request_id }) => <AppLink to={`/requests/${request_id}`}>the call</AppLink>,
  },
];
