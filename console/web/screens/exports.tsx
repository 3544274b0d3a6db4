import { Button, Group, Select, Tabs } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useNavigate } from '@tanstack/react-router';
import { useState } from 'react';
import { type Answer, call } from '../api/client';
import { reading } from '../api/queries';
import { PART_ROWS } from '../api/whole';
import { CreateDialog } from '../exports/create';
import { exportCsv } from '../exports/csv';
import { Standing } from '../exports/progress';
import { Schedules } from '../exports/schedules';
import { type Export, isUnderWay, kindNames, kinds, periodText, states } from '../exports/words';
import { oneOf, text, useFilters } from '../fields/filters';
import { CsvButton } from '../parts/csv';
import { type Column, DataTable } from '../parts/data-table';
import { Guarded } from '../parts/guarded';
import { AppLink } from '../parts/link';
import { PersonName } from '../parts/names';
import { Page } from '../parts/page';
import { firstPlace, pageAt, withNext } from '../parts/pages';
import { Empty } from '../parts/states';
import { Time } from '../parts/time';
import { useZone } from '../session/me';

type Listed = Answer<'GET /api/exports'>;
type Status = Export['status'];
const statuses = Object.keys(states) as Status[];
const shape = {
  tab: oneOf('exports', 'schedules'),
  status: oneOf(...statuses),
  /** Opens the form, with these chosen: `payments ledger`. */
  kinds: text,
  cursor: text,
};

/** Days of the organization in files: made, followed, kept for a while, or made by themselves. */
export function Exports() {
  return (
    <Guarded title="Exports" rights={['org:billing']}>
      <Inside />
    </Guarded>
  );
}

function Inside() {
  const [filters, set] = useFilters(shape);
  const [is_open, setOpen] = useState(filters.kinds !== undefined);
  const offered = kindNames.filter((kind) => filters.kinds?.split(' ').includes(kind));
  const close = () => {
    setOpen(false);
    if (filters.kinds !== undefined) set({ kinds: undefined });
  };
  return (
    <Page
      title="Exports"
      about="Ledger, calls, payments and closing statements in files, exact to the last digit."
      actions={<Button onClick={() => setOpen(true)}>New export</Button>}
    >
      <Tabs
        value={filters.tab ?? 'exports'}
        onChange={(tab) => set({ tab: tab as 'exports' })}
        keepMounted={false}
      >
        <Tabs.List>
          <Tabs.Tab value="exports">Exports</Tabs.Tab>
          <Tabs.Tab value="schedules">Schedules</Tabs.Tab>
        </Tabs.List>
        <Tabs.Panel value="exports" pt="md">
          <Group gap="xs" align="flex-end" mb="sm">
            <Select
              label="State"
              placeholder="any"
              data={statuses.map((value) => ({ value, label: states[value].word }))}
              value={filters.status ?? null}
              onChange={(value) => set({ status: (value ?? undefined) as Status | undefined })}
              clearable
              clearButtonProps={{ 'aria-label': 'Show exports in any state' }}
              w={150}
            />
            <CsvButton
              file="exports"
              read={async (place = firstPlace()) => {
                const query = { status: filters.status, ...pageAt(place), per_page: PART_ROWS };
                const answer = await call('GET /api/exports', { query });
                const { exports, next } = withNext<Listed>(place)(answer);
                return { items: exports, next };
              }}
              columns={exportCsv}
            />
          </Group>
          <List {...{ filters, set }} />
        </Tabs.Panel>
        <Tabs.Panel value="schedules" pt="md">
          <Schedules cursor={filters.cursor} onCursor={(cursor) => set({ cursor })} />
        </Tabs.Panel>
      </Tabs>
      <CreateDialog opened={is_open} offered={offered} onClose={close} />
    </Page>
  );
}

function List({
  filters,
  set,
}: {
  filters: ReturnType<typeof useFilters<typeof shape>>[0];
  set: ReturnType<typeof useFilters<typeof shape>>[1];
}) {
  const { status, cursor } = filters;
  const zone = useZone();
  const navigate = useNavigate();
  const query = useQuery({
    ...reading('GET /api/exports', { query: { status, ...pageAt(cursor), per_page: 50 } }),
    select: withNext<Listed>(cursor),
    refetchInterval: ({ state }) => (state.data?.exports.some(isUnderWay) ? 1_000 : 30_000),
  });
  return (
    <DataTable
      label="Exports"
      query={query}
      itemsOf={({ exports }) => exports}
      keyOf={({ id }) => id}
      columns={columnsOf(zone)}
      cursor={cursor}
      onCursor={(next) => set({ cursor: next })}
      onOpen={({ id }) => void navigate({ to: `/exports/${id}` })}
      empty={<Empty title="No exports">The month that is over is written in seconds.</Empty>}
    />
  );
}

function columnsOf(zone: string): Column<Export>[] {
  return [
    {
      title: 'Days',
      cell: (one) => <AppLink to={`/exports/${one.id}`}>{periodText(one, zone)}</AppLink>,
    },
    { title: 'What', cell: (one) => one.kinds.map((kind) => kinds[kind]).join(', ') },
    { title: 'State', cell: (one) => <Standing one={one} /> },
    { title: 'Made', cell: ({ created_at }) => <Time at={created_at} /> },
    {
      title: 'By',
      cell: ({ created_by, schedule_id }) =>
        schedule_id ? 'a schedule' : <PersonName id={created_by} />,
    },
    {
      title: 'Kept until',
      cell: ({ expires_at, target }) =>
        target === 's3' && !expires_at ? 'in its bucket' : <Time at={expires_at} />,
    },
  ];
}
