import { Button, Group, NumberInput, Select, Text } from '@mantine/core';
import { notifications } from '@mantine/notifications';
import { useQuery } from '@tanstack/react-query';
import { useEffect, useState } from 'react';
import { type Answer, call } from '../api/client';
import { reading, refresh } from '../api/queries';
import { PART_ROWS, type ReadPart } from '../api/whole';
import { plainWords } from '../base/plain';
import { State } from '../parts/badge';
import { CsvButton } from '../parts/csv';
import { type Column, DataTable } from '../parts/data-table';
import { FormModal } from '../parts/form-modal';
import { AppLink } from '../parts/link';
import { PersonName } from '../parts/names';
import { firstPlace, pageAt, withNext } from '../parts/pages';
import { Empty } from '../parts/states';
import { Time } from '../parts/time';
import { useZone } from '../session/me';
import { FormChoice, KindChoice } from './choices';
import { type Schedule, scheduleCsv } from './csv';
import { type Format, type Kind, kinds, states } from './words';

type Listed = Answer<'GET /api/export-schedules'>;

const LAG_MINUTES = 60;
const every_words = { day: 'each day', month: 'each month' } as const;

/** What is exported by itself once a day or month is over. */
export function Schedules({
  cursor,
  onCursor,
}: {
  cursor: string | undefined;
  onCursor: (cursor: string | undefined) => void;
}) {
  const query = useQuery({
    ...reading('GET /api/export-schedules', { query: { ...pageAt(cursor), per_page: 50 } }),
    select: withNext<Listed>(cursor),
  });
  const [is_making, setMaking] = useState(false);
  const [ending, setEnding] = useState<Schedule>();
  return (
    <>
      <Group justify="flex-end" mb="sm">
        <CsvButton file="export-schedules" read={read} columns={scheduleCsv} />
        <Button onClick={() => setMaking(true)}>New schedule</Button>
      </Group>
      <DataTable
        label="Schedules"
        query={query}
        itemsOf={({ schedules }) => schedules}
        keyOf={({ id }) => id}
        columns={columns}
        cursor={cursor}
        onCursor={onCursor}
        empty={
          <Empty title="No schedules">A schedule writes each day or month once it is over.</Empty>
        }
        actions={(schedule) =>
          schedule.ended_at === null ? (
            <Button size="compact-sm" variant="default" onClick={() => setEnding(schedule)}>
              End
            </Button>
          ) : null
        }
      />
      <MakeDialog opened={is_making} onClose={() => setMaking(false)} />
      <EndDialog schedule={ending} onClose={() => setEnding(undefined)} />
    </>
  );
}

const read: ReadPart<Schedule> = async (place = firstPlace()) => {
  const query = { ...pageAt(place), per_page: PART_ROWS };
  const answer = await call('GET /api/export-schedules', { query });
  const { schedules, next } = withNext<Listed>(place)(answer);
  return { items: schedules, next };
};

const columns: Column<Schedule>[] = [
  {
    title: 'What',
    cell: ({ kinds: written, every, time_zone }) => (
      <span>
        {written.map((kind) => kinds[kind]).join(', ')}, {every_words[every]} of {time_zone}
      </span>
    ),
  },
  {
    title: 'Next',
    cell: ({ next_at, ended_at }) => (ended_at === null ? <Time at={next_at} /> : '–'),
  },
  {
    title: 'Newest',
    cell: ({ last_export_id, last_status }) =>
      last_export_id && last_status ? (
        <AppLink to={`/exports/${last_export_id}`}>{states[last_status].word}</AppLink>
      ) : (
        'none yet'
      ),
  },
  { title: 'By', cell: ({ created_by }) => <PersonName id={created_by} /> },
  {
    title: 'State',
    cell: ({ ended_at, ended_reason, waiting_reason }) =>
      ended_at === null && waiting_reason !== null ? (
        <Group gap={4}>
          <State word="waits" kind="waiting" />
          <Text size="sm">
            {plainWords(waiting_reason)} Delete the files of an older export to make room.
          </Text>
        </Group>
      ) : ended_at === null ? (
        <State word="goes on" kind="good" />
      ) : (
        <Group gap={4}>
          <State word="ended" kind="neutral" />
          {ended_reason && <Text size="sm">{ended_reason}</Text>}
        </Group>
      ),
  },
];

function MakeDialog({ opened, onClose }: { opened: boolean; onClose: () => void }) {
  const zone = useZone();
  const [chosen, setChosen] = useState<Kind[]>([]);
  const [every, setEvery] = useState<'day' | 'month'>('month');
  const [lag, setLag] = useState<number | string>(LAG_MINUTES);
  const [format, setFormat] = useState<Format>('csv');
  const [destination, setDestination] = useState<string | null>(null);
  useEffect(() => {
    if (!opened) return;
    setChosen(['statement', 'ledger']);
    setEvery('month');
    setLag(LAG_MINUTES);
  }, [opened]);
  const submit = async (idempotency_key: string) => {
    const body = {
      kinds: chosen,
      every,
      lag_minutes: Number(lag),
      time_zone: zone,
      format,
      ...(destination === null ? {} : { destination_id: destination }),
    };
    await call('POST /api/export-schedules', { body, idempotency_key });
    void refresh('/api/export-schedules');
    notifications.show({ message: `It is written ${every_words[every]}.` });
    onClose();
  };
  return (
    <FormModal
      title="New schedule"
      opened={opened}
      onClose={onClose}
      submit={submit}
      label="Create schedule"
      is_ready={chosen.length > 0 && typeof lag === 'number'}
    >
      <Select
        label="When"
        description={`Once a day or month of ${zone} is over.`}
        data={Object.entries(every_words).map(([value, label]) => ({ value, label }))}
        value={every}
        onChange={(value) => setEvery(value as 'day')}
        allowDeselect={false}
      />
      <NumberInput
        label="Minutes after its end"
        value={lag}
        onChange={setLag}
        min={15}
        max={10_080}
        allowDecimal={false}
      />
      <KindChoice value={chosen} onChange={setChosen} />
      <FormChoice
        {...{ format, destination }}
        onFormat={setFormat}
        onDestination={setDestination}
      />
    </FormModal>
  );
}

function EndDialog({ schedule, onClose }: { schedule: Schedule | undefined; onClose: () => void }) {
  const submit = async (idempotency_key: string) => {
    if (schedule === undefined) return;
    const names = { id: schedule.id };
    await call('DELETE /api/export-schedules/:id', { names, idempotency_key });
    void refresh('/api/export-schedules');
    onClose();
  };
  return (
    <FormModal
      title="End this schedule"
      opened={schedule !== undefined}
      onClose={onClose}
      submit={submit}
      label="End schedule"
      is_dangerous
    >
      <Text>Exports that it has made stay for their time.</Text>
    </FormModal>
  );
}
