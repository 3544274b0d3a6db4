import { Group, Select } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { type Answer, call } from '../api/client';
import { reading } from '../api/queries';
import { nextOf, PART_ROWS, type ReadPart } from '../api/whole';
import type { AnyColumn } from '../base/csv';
import { CopyId } from '../parts/copy-id';
import { CsvButton } from '../parts/csv';
import { type Column, DataTable } from '../parts/data-table';
import { Empty } from '../parts/states';
import { Time } from '../parts/time';
import { type ListProps, PER_PAGE } from './lists';
import { providerWords } from './words';

type Webhook = Answer<'GET /api/admin/payments/webhooks'>['webhooks'][number];

const states: Record<Webhook['status'], string> = {
  unmatched: 'no matching payment',
  sent: 'processed',
  ignored: 'not needed',
};
const choices = [
  ...Object.entries(states).map(([value, label]) => ({ value, label })),
  { value: 'all', label: 'all' },
];

/** What providers told of, and what became of it. */
export function Webhooks({ filters, set }: ListProps) {
  const status = filters.news ?? 'unmatched';
  const asked = status === 'all' ? {} : { status };
  const query = useQuery(
    reading('GET /api/admin/payments/webhooks', {
      query: { ...asked, cursor: filters.cursor ?? 'first', per_page: PER_PAGE },
    }),
  );
  const read: ReadPart<Webhook> = async (place = 'first') => {
    const part = { ...asked, cursor: place, per_page: PART_ROWS };
    const answer = await call('GET /api/admin/payments/webhooks', { query: part });
    return { items: answer.webhooks, next: nextOf(answer) };
  };
  return (
    <>
      <Group gap="xs" align="flex-end" mb="sm">
        <Select
          label="State"
          data={choices}
          value={status}
          onChange={(news) => set({ news: news as 'unmatched' })}
          allowDeselect={false}
          w={200}
        />
        <CsvButton file="webhooks" read={read} columns={csv} />
      </Group>
      <DataTable
        label="Webhooks"
        query={query}
        itemsOf={({ webhooks }) => webhooks}
        keyOf={({ provider, id }) => `${provider} ${id}`}
        columns={columns}
        cursor={filters.cursor}
        onCursor={(cursor) => set({ cursor })}
        empty={
          <Empty title={status === 'unmatched' ? 'Every webhook has its payment' : 'No webhooks'}>
            One that names no payment of ours is kept and looked for again for three days.
          </Empty>
        }
      />
    </>
  );
}

const columns: Column<Webhook>[] = [
  { title: 'When', cell: ({ received_at }) => <Time at={received_at} /> },
  { title: 'From', cell: ({ provider }) => providerWords(provider) },
  { title: 'What', cell: ({ type }) => <span className="wrap">{type}</span> },
  { title: 'State', cell: ({ status }) => states[status] ?? status },
  {
    title: 'Names',
    cell: ({ payment_session_id, named_session_id, order_id, capture_id }) => {
      const named = payment_session_id ?? named_session_id ?? order_id ?? capture_id;
      return named ? <CopyId value={named} /> : 'nothing';
    },
  },
  { title: 'Webhook', cell: ({ id }) => <CopyId value={id} /> },
];

const csv: AnyColumn<Webhook>[] = [
  { title: 'id', text: ({ id }) => id },
  { title: 'received_at', text: ({ received_at }) => received_at },
  { title: 'provider', text: ({ provider }) => provider },
  { title: 'type', text: ({ type }) => type },
  { title: 'status', text: ({ status }) => status },
  { title: 'payment_session_id', text: ({ payment_session_id }) => payment_session_id },
  { title: 'named_session_id', text: ({ named_session_id }) => named_session_id },
  { title: 'order_id', text: ({ order_id }) => order_id },
  { title: 'capture_id', text: ({ capture_id }) => capture_id },
];
