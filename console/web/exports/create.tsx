import { Group, Text, TextInput } from '@mantine/core';
import { useNavigate } from '@tanstack/react-router';
import { useEffect, useState } from 'react';
import { call } from '../api/client';
import { refresh } from '../api/queries';
import { serverNow } from '../base/clock';
import { addDays, dayIn, firstOfMonth, isDay } from '../base/days';
import { FormModal } from '../parts/form-modal';
import { useZone } from '../session/me';
import { FormChoice, KindChoice } from './choices';
import { boundsOf, type Format, type Kind } from './words';

/** Has days of the organization written into files; its first offer is the month that is over. */
export function CreateDialog({
  opened,
  offered,
  onClose,
}: {
  opened: boolean;
  /** What is chosen at first. */
  offered: readonly Kind[];
  onClose: () => void;
}) {
  const zone = useZone();
  const navigate = useNavigate();
  const [chosen, setChosen] = useState<Kind[]>([]);
  const [from, setFrom] = useState('');
  const [until, setUntil] = useState('');
  const [format, setFormat] = useState<Format>('csv');
  const [destination, setDestination] = useState<string | null>(null);
  const first = offered.join(' ');
  useEffect(() => {
    if (!opened) return;
    const today = dayIn(zone, serverNow());
    setChosen(first === '' ? ['statement', 'ledger'] : (first.split(' ') as Kind[]));
    setFrom(firstOfMonth(today, -1));
    setUntil(addDays(firstOfMonth(today), -1));
    setFormat('csv');
    setDestination(null);
  }, [opened, first, zone]);
  const is_period = isDay(from) && isDay(until) && from <= until;
  const submit = async (idempotency_key: string) => {
    const body = {
      kinds: chosen,
      ...boundsOf(from, until, zone),
      time_zone: zone,
      format,
      ...(destination === null ? {} : { destination_id: destination }),
    };
    const { id } = await call('POST /api/exports', { body, idempotency_key });
    void refresh('/api/exports');
    // The dialog goes with its page.
    await navigate({ to: `/exports/${id}` });
  };
  return (
    <FormModal
      title="New export"
      opened={opened}
      onClose={onClose}
      submit={submit}
      label="Start export"
      is_ready={chosen.length > 0 && is_period}
    >
      <Group grow>
        <TextInput
          type="date"
          label="From"
          value={from}
          onChange={(event) => setFrom(event.currentTarget.value)}
          data-autofocus
        />
        <TextInput
          type="date"
          label="To"
          value={until}
          onChange={(event) => setUntil(event.currentTarget.value)}
          error={from !== '' && until !== '' && !is_period && 'before the first day'}
        />
      </Group>
      <Text size="sm" c="dimmed">
        Days of {zone}. What it holds is fixed now, whatever is written later.
      </Text>
      <KindChoice value={chosen} onChange={setChosen} />
      <FormChoice
        {...{ format, destination }}
        onFormat={setFormat}
        onDestination={setDestination}
      />
    </FormModal>
  );
}
