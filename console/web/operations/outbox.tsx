import { Button, Group, Select, Title } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { type Answer, call } from '../api/client';
import { reading, refresh } from '../api/queries';
import { act } from '../parts/act';
import { State } from '../parts/badge';
import { CopyId } from '../parts/copy-id';
import { type Column, DataTable } from '../parts/data-table';
import { pageAt, withNext } from '../parts/pages';
import { Empty } from '../parts/states';
import { Time } from '../parts/time';

type Message = Answer<'GET /api/outbox'>['messages'][number];
export type OutboxStatus = 'waiting' | 'parked';

const columns: Column<Message>[] = [
  {
    title: 'Workflow',
    cell: ({ workflow, signal }) => (signal ? `${workflow}: ${signal}` : workflow),
  },
  { title: 'Its id', cell: ({ workflow_id }) => <CopyId value={workflow_id} /> },
  { title: 'Since', cell: ({ created_at }) => <Time at={created_at} /> },
  { title: 'Tries', cell: ({ attempts }) => attempts, is_number: true },
  {
    title: 'State',
    cell: ({ parked_at }) =>
      parked_at === null ? (
        <State word="waits" kind="waiting" />
      ) : (
        <State word="parked" kind="bad" />
      ),
  },
  {
    title: 'Last error',
    cell: ({ last_error }) => <span className="wrap">{last_error ?? '–'}</span>,
  },
];

/** Messages to Temporal that wait or were given up, with another try. */
export function Outbox({
  status = 'parked',
  set,
}: {
  status: OutboxStatus | undefined;
  set: (status: OutboxStatus | undefined) => void;
}) {
  const [cursor, setCursor] = useState<string>();
  const query = useQuery({
    ...reading('GET /api/outbox', { query: { status, per_page: 50, ...pageAt(cursor) } }),
    select: withNext(cursor),
    refetchInterval: 10_000,
  });
  const again = (id: string) =>
    act(async () => {
      await call('POST /api/outbox/:id/retry', { names: { id } });
      await refresh('/api/outbox', '/api/workers');
    });
  return (
    <section>
      <Group justify="space-between" align="flex-end">
        <Title order={2} size="h4">
          Messages to Temporal
        </Title>
        <Select
          label="Which"
          data={[
            { value: 'parked', label: 'given up' },
            { value: 'waiting', label: 'waiting' },
          ]}
          value={status}
          onChange={(value) => {
            setCursor(undefined);
            set(value === 'waiting' ? 'waiting' : undefined);
          }}
          allowDeselect={false}
          w={150}
        />
      </Group>
      <DataTable
        label="Messages"
        query={query}
        itemsOf={({ messages }) => messages}
        keyOf={({ id }) => id}
        columns={columns}
        cursor={cursor}
        onCursor={setCursor}
        empty={
          <Empty title={status === 'parked' ? 'Nothing was given up' : 'Nothing waits'}>
            What the database decides reaches Temporal by these messages.
          </Empty>
        }
        actions={({ id, parked_at }) =>
          parked_at === null ? null : (
            <Button size="compact-sm" variant="default" onClick={() => void again(id)}>
              Try again
            </Button>
          )
        }
      />
    </section>
  );
}
