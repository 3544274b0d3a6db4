import { Button, Group, Select, Stack, Text, Title } from '@mantine/core';
import { useDisclosure } from '@mantine/hooks';
import { notifications } from '@mantine/notifications';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { call } from '../api/client';
import { reading, refresh } from '../api/queries';
import { act } from '../parts/act';
import { State } from '../parts/badge';
import { type Column, DataTable } from '../parts/data-table';
import { FormModal } from '../parts/form-modal';
import { Empty } from '../parts/states';
import { Time } from '../parts/time';
import { AddDestination, Recipients, SecretOnce } from './notice-dialogs';
import { channels, type Destination, kindsOf, kindWords, type Message } from './notice-words';

/** An organization has no more. */
const DESTINATIONS_MAX = 50;
const LOOK_MS = 2_000;
const CALM_MS = 30_000;

export interface NoticeFilters {
  message_status?: Message['status'] | undefined;
  page?: string | undefined;
}

const columns: Column<Destination>[] = [
  { title: 'Name', cell: ({ name }) => <span className="wrap">{name}</span> },
  {
    title: 'By',
    cell: ({ channel, host, recipients }) => {
      const label = channels.find(({ value }) => value === channel)?.label ?? channel;
      const confirmed = recipients.filter(({ confirmed_at }) => confirmed_at !== null).length;
      const where = channel === 'email' ? `${confirmed} confirmed` : host;
      return <span className="wrap">{`${label}${where ? `, ${where}` : ''}`}</span>;
    },
  },
  {
    title: 'Notifies about',
    cell: ({ kinds, org_id }) => {
      const is_all = kindsOf(org_id).every(({ value }) => kinds.includes(value));
      return (
        <span className="wrap">{is_all ? 'everything' : kinds.map(kindWords).join('; ')}</span>
      );
    },
  },
  {
    title: 'State',
    cell: ({ disabled_at, disabled_reason }) =>
      disabled_at === null ? (
        <State word="on" kind="good" />
      ) : (
        <Stack gap={0} align="flex-start">
          <State word="off" kind="bad" />
          {disabled_reason && <Text size="sm">{disabled_reason}</Text>}
        </Stack>
      ),
  },
];

/** Where people are told of things, tests of it, and how messages fare. */
export function Notices({
  filters,
  set,
}: {
  filters: NoticeFilters;
  set: (change: NoticeFilters) => void;
}) {
  const query = useQuery(
    reading('GET /api/notice-destinations', { query: { per_page: DESTINATIONS_MAX } }),
  );
  const [is_adding, adding] = useDisclosure();
  const [secret, setSecret] = useState<string>();
  const [deleting, setDeleting] = useState<Destination>();
  const [of, setOf] = useState<string>();
  const destinations = query.data?.destinations ?? [];
  const remove = async () => {
    if (deleting === undefined) return;
    await call('DELETE /api/notice-destinations/:id', { names: { id: deleting.id } });
    void refresh('/api/notice');
    setDeleting(undefined);
  };
  return (
    <Stack>
      <Group justify="flex-end">
        <Button onClick={adding.open}>New destination</Button>
      </Group>
      <DataTable
        label="Destinations"
        query={query}
        itemsOf={({ destinations }) => destinations}
        keyOf={({ id }) => id}
        columns={columns}
        empty={
          <Empty title="No destinations">
            A Slack or Teams channel, mail or a webhook can be notified of tickets and money.
          </Empty>
        }
        actions={(one) => (
          <Acts
            destination={one}
            onDelete={() => setDeleting(one)}
            onAddresses={() => setOf(one.id)}
          />
        )}
      />
      <Messages destinations={destinations} filters={filters} set={set} />
      <AddDestination opened={is_adding} onClose={adding.close} onSecret={setSecret} />
      <SecretOnce secret={secret} onClose={() => setSecret(undefined)} />
      <Recipients
        destination={destinations.find(({ id }) => id === of)}
        onClose={() => setOf(undefined)}
      />
      <FormModal
        title={`Delete ${deleting?.name ?? ''}`}
        opened={deleting !== undefined}
        onClose={() => setDeleting(undefined)}
        submit={remove}
        label="Delete"
        is_dangerous
      >
        <Text>It receives no more notices, and those still waiting for it are dropped.</Text>
      </FormModal>
    </Stack>
  );
}

function Acts({
  destination: { id, channel, disabled_at },
  onDelete,
  onAddresses,
}: {
  destination: Destination;
  onDelete: () => void;
  onAddresses: () => void;
}) {
  const change = (work: () => Promise<unknown>) =>
    void act(async () => {
      await work();
      await refresh('/api/notice');
    });
  return (
    <>
      {channel === 'email' && (
        <Button size="compact-sm" variant="default" onClick={onAddresses}>
          Addresses
        </Button>
      )}
      <Button
        size="compact-sm"
        variant="default"
        disabled={disabled_at !== null}
        onClick={() =>
          change(async () => {
            await call('POST /api/notice-destinations/:id/test', { names: { id } });
            notifications.show({ message: 'Test sent. The log shows whether it arrives.' });
          })
        }
      >
        Test
      </Button>
      <Button
        size="compact-sm"
        variant="default"
        onClick={() =>
          change(() =>
            call('PUT /api/notice-destinations/:id', {
              names: { id },
              body: { enabled: disabled_at !== null },
            }),
          )
        }
      >
        {disabled_at === null ? 'Turn off' : 'Turn on'}
      </Button>
      <Button size="compact-sm" variant="default" onClick={onDelete}>
        Delete
      </Button>
    </>
  );
}

const states = {
  waiting: { word: 'on its way', kind: 'waiting' },
  delivered: { word: 'arrived', kind: 'good' },
  failed: { word: 'failed', kind: 'bad' },
} as const;

/** The log of messages, which follows what is on its way. */
function Messages({
  destinations,
  filters: { message_status, page = '1' },
  set,
}: {
  destinations: readonly Destination[];
  filters: NoticeFilters;
  set: (change: NoticeFilters) => void;
}) {
  const query = useQuery({
    ...reading('GET /api/notice-messages', {
      query: { status: message_status, page: Number(page) || 1, per_page: 20 },
    }),
    refetchInterval: ({ state: { data } }) =>
      data?.messages.some(({ status }) => status === 'waiting') ? LOOK_MS : CALM_MS,
  });
  const again = (id: string) =>
    act(async () => {
      await call('POST /api/notice-messages/:id/replay', { names: { id } });
      await refresh('/api/notice-messages');
    });
  const nameOf = (id: string) =>
    destinations.find((one) => one.id === id)?.name ?? 'a deleted destination';
  return (
    <>
      <Group justify="space-between" align="flex-end">
        <Title order={2} size="h4">
          Log
        </Title>
        <Select
          label="Messages"
          placeholder="all"
          data={Object.entries(states).map(([value, { word: label }]) => ({ value, label }))}
          value={message_status ?? null}
          onChange={(value) =>
            set({ message_status: (value ?? undefined) as Message['status'], page: undefined })
          }
          clearable
          clearButtonProps={{ 'aria-label': 'Show all messages' }}
          w={150}
        />
      </Group>
      <DataTable
        label="Messages"
        query={query}
        itemsOf={({ messages }) => messages}
        keyOf={({ id }) => id}
        columns={[
          { title: 'When', cell: ({ created_at }) => <Time at={created_at} /> },
          { title: 'To', cell: ({ destination_id }) => nameOf(destination_id) },
          {
            title: 'Of',
            cell: ({ kind, notice_count }) =>
              notice_count > 1 ? `${notice_count} times: ${kindWords(kind)}` : kindWords(kind),
          },
          { title: 'State', cell: ({ status }) => <State {...states[status]} /> },
          { title: 'Last try', cell: lastTry },
        ]}
        empty={<Empty title="No message">Messages are listed here for 90 days.</Empty>}
        actions={({ id, status, kind }) =>
          status === 'waiting' || kind === 'confirmation' ? null : (
            <Button size="compact-sm" variant="default" onClick={() => void again(id)}>
              Send again
            </Button>
          )
        }
      />
      <Pages
        page={Number(page) || 1}
        has_more={query.data?.has_more ?? false}
        onPage={(next) => set({ page: next === 1 ? undefined : String(next) })}
      />
    </>
  );
}

function lastTry({ last_status, last_error, attempts, next_at }: Message) {
  const said = last_error ?? (last_status === null ? '–' : `answered ${last_status}`);
  return (
    <span className="wrap">
      {said}
      {next_at !== null && attempts > 0 && (
        <>
          , again <Time at={next_at} />
        </>
      )}
    </span>
  );
}

function Pages({
  page,
  has_more,
  onPage,
}: {
  page: number;
  has_more: boolean;
  onPage: (page: number) => void;
}) {
  if (page === 1 && !has_more) return null;
  return (
    <Group justify="flex-end" gap="xs">
      <Button variant="default" size="xs" disabled={page === 1} onClick={() => onPage(page - 1)}>
        Previous page
      </Button>
      <Button variant="default" size="xs" disabled={!has_more} onClick={() => onPage(page + 1)}>
        Next page
      </Button>
    </Group>
  );
}
