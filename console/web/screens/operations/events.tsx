import { Button, Code, Group, Select, Stack, Text } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { Fragment, useLayoutEffect, useState } from 'react';
import { type Answer, call, type Query } from '../../api/client';
import { leave, reading } from '../../api/queries';
import { PART_ROWS, type ReadPart } from '../../api/whole';
import { DayRange, dayShape, momentsOf } from '../../fields/day-range';
import { FilterInput } from '../../fields/filter-input';
import { oneOf, text, useFilters } from '../../fields/filters';
import { type EventType, event_types } from '../../operations/event-types';
import { CopyId } from '../../parts/copy-id';
import { CsvButton } from '../../parts/csv';
import { type Column, DataTable } from '../../parts/data-table';
import { Dialog } from '../../parts/dialog';
import { FactTable } from '../../parts/facts';
import { Guarded } from '../../parts/guarded';
import { LinkButton } from '../../parts/link';
import { listed } from '../../parts/lists';
import { Name } from '../../parts/names';
import { Page } from '../../parts/page';
import { Empty } from '../../parts/states';
import { Time } from '../../parts/time';
import { useMe, useZone } from '../../session/me';

type Happened = Answer<'GET /api/events'>['events'][number];

const LOOK_MS = 10_000;
const shape = {
  type: oneOf(...event_types),
  action: text,
  agent_id: text,
  request_id: text,
  ...dayShape,
  paused: oneOf('1'),
  cursor: text,
};

const columns: Column<Happened>[] = [
  { title: 'When', cell: ({ created_at }) => <Time at={created_at} /> },
  { title: 'What', cell: ({ type }) => <span className="nowrap">{type}</span> },
  { title: 'Action', cell: ({ action }) => <span className="wrap">{action ?? '–'}</span> },
  { title: 'By', cell: (event) => <Whose event={event} /> },
  { title: 'In short', cell: ({ payload }) => <Short payload={payload} /> },
  { title: 'Request', cell: ({ request_id }) => request_id && <CopyId value={request_id} /> },
];

/** What happened, as it happens: newest first, until somebody pauses it. */
export function Events() {
  return (
    <Guarded title="Events" rights={['events:read', 'org:billing']}>
      <Inside />
    </Guarded>
  );
}

function Inside() {
  const me = useMe();
  const [{ cursor, paused, from, before, ...filters }, set] = useFilters(shape);
  const days = { from, before };
  const { from: since, to: until } = momentsOf(days, useZone());
  const asked = { ...filters, since, until };
  const is_live = paused === undefined && cursor === undefined;
  const query = useQuery({
    ...reading('GET /api/events', {
      query: { ...asked, cursor, limit: 50 } as Query<'GET /api/events'>,
    }),
    // New events make the page read anew at once; this is for a stream that is away.
    refetchInterval: is_live ? LOOK_MS : false,
    staleTime: 0,
    // What stands still is read once.
    enabled: ({ state }) => me.acting_org !== null && (is_live || state.data === undefined),
  });
  useLayoutEffect(() => {
    if (!is_live) leave('/api/events');
  }, [is_live]);
  const read: ReadPart<Happened> = async (place) => {
    const part = { ...asked, cursor: place, limit: PART_ROWS } as Query<'GET /api/events'>;
    const { events, next_cursor } = await call('GET /api/events', { query: part });
    return { items: events, next: next_cursor };
  };
  const [open, setOpen] = useState<Happened>();
  if (me.acting_org === null)
    return (
      <Page title="Events">
        <Empty title="Choose an organization">Choose one in the menu at the top.</Empty>
      </Page>
    );
  return (
    <Page
      title="Events"
      about={is_live ? 'New ones appear by themselves.' : 'Paused: nothing moves.'}
      actions={
        <Button
          variant={is_live ? 'default' : 'filled'}
          onClick={() => set(is_live ? { paused: '1' } : { paused: undefined, cursor: undefined })}
        >
          {is_live ? 'Pause' : 'Follow'}
        </Button>
      }
    >
      <Group gap="xs" align="flex-end">
        <Select
          label="What"
          placeholder="anything"
          data={[...event_types]}
          value={filters.type ?? null}
          onChange={(type) => set({ type: (type ?? undefined) as EventType | undefined })}
          clearable
          clearButtonProps={{ 'aria-label': 'Show anything' }}
          searchable
          w={230}
        />
        {(['action', 'agent_id', 'request_id'] as const).map((name) => (
          <FilterInput
            key={name}
            label={labels[name]}
            value={filters[name]}
            onFilter={(words) => set({ [name]: words })}
            w={180}
          />
        ))}
        <DayRange days={days} set={set} />
        <CsvButton file="events" read={read} columns={csv} />
      </Group>
      <DataTable
        label="Events"
        query={listed(query, ({ next_cursor }) => next_cursor)}
        itemsOf={({ events }) => events}
        keyOf={({ id }) => id}
        columns={columns}
        cursor={cursor}
        onCursor={(next) => set({ cursor: next })}
        empty={<Empty title="Nothing of this kind">It appears here as it happens.</Empty>}
        actions={(event) => (
          <Button
            size="compact-sm"
            variant="default"
            aria-label={`All of ${event.type}`}
            onClick={() => setOpen(event)}
          >
            All
          </Button>
        )}
      />
      <Dialog
        opened={open !== undefined}
        onClose={() => setOpen(undefined)}
        title={open?.type ?? ''}
        size="lg"
      >
        {open && (
          <Detail
            event={open}
            onRequest={(request_id) => {
              setOpen(undefined);
              set({ request_id, type: undefined, cursor: undefined });
            }}
          />
        )}
      </Dialog>
    </Page>
  );
}

const labels = { action: 'Action', agent_id: 'Id of an agent', request_id: 'Id of a request' };

function Detail({
  event,
  onRequest,
}: {
  event: Happened;
  onRequest: (request_id: string) => void;
}) {
  const { id, created_at, request_id, trace_label, payload } = event;
  return (
    <Stack gap="sm">
      <Group gap="xs">
        <Time at={created_at} />
        <CopyId value={id} />
        {trace_label && <Text c="dimmed">{trace_label}</Text>}
      </Group>
      <FactTable
        label="Who and what"
        facts={Object.entries(idsOf(event)).map(([name, of]) => [
          name.replace(/_id$/, '').replaceAll('_', ' '),
          <Name key={name} id={of} />,
        ])}
      />
      <Code block tabIndex={0} aria-label="All that it says" className="said">
        {JSON.stringify(payload, null, 2)}
      </Code>
      {request_id && (
        <Group>
          <Button variant="default" onClick={() => onRequest(request_id)}>
            All of this request
          </Button>
          <LinkButton to={`/requests/${request_id}`} variant="default">
            Its story and cost
          </LinkButton>
        </Group>
      )}
    </Stack>
  );
}

/** The ids of a payload that have names, by what they are. */
function idsOf({ agent_id, payload }: Happened): Record<string, string> {
  const found = { agent_id, ...payload };
  return Object.fromEntries(
    Object.entries(found).flatMap(([name, id]) =>
      typeof id === 'string' && /^(user|team|agent|key|wal)_/.test(id) ? [[name, id]] : [],
    ),
  );
}

/** The person, else the agent, the key or the wallet: whatever the event names first of these. */
function whoseId(event: Happened): string | null {
  const ids = idsOf(event);
  const first = ['user_id', 'asker_id', 'agent_id', 'key_id', 'team_id', 'wallet_id'];
  return first.map((name) => ids[name]).find((id) => id !== undefined) ?? null;
}

function Whose({ event }: { event: Happened }) {
  const id = whoseId(event);
  return id === null ? <span>–</span> : <Name id={id} />;
}

const moment = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z$/;

/** The first plain values of a payload. */
function Short({ payload }: { payload: Record<string, unknown> }) {
  const said = Object.entries(payload)
    .filter(([name, value]) => ['string', 'number'].includes(typeof value) && !name.endsWith('_id'))
    .slice(0, 4);
  return (
    <span className="wrap">
      {said.map(([name, value], place) => (
        <Fragment key={name}>
          {place > 0 && ', '}
          {name.replaceAll('_', ' ')}{' '}
          {moment.test(String(value)) ? <Time at={String(value)} /> : String(value)}
        </Fragment>
      ))}
    </span>
  );
}

const csv = [
  { title: 'id', text: ({ id }: Happened) => id },
  { title: 'at', text: ({ created_at }: Happened) => created_at },
  { title: 'type', text: ({ type }: Happened) => type },
  { title: 'action', text: ({ action }: Happened) => action },
  { title: 'request_id', text: ({ request_id }: Happened) => request_id },
  { title: 'whose_id', text: whoseId },
  { title: 'whose_name', name_of: whoseId },
  { title: 'payload', text: ({ payload }: Happened) => JSON.stringify(payload) },
];
