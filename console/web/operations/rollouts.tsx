import { Button, NumberInput, Stack, Text, TextInput } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useEffect, useState } from 'react';
import { call } from '../api/client';
import { reading, refresh } from '../api/queries';
import { act } from '../parts/act';
import { State } from '../parts/badge';
import { type Column, DataTable } from '../parts/data-table';
import { FormModal } from '../parts/form-modal';
import { pageAt, withNext } from '../parts/pages';
import { Empty } from '../parts/states';
import { Time } from '../parts/time';
import { type Rollout, rolloutStates, type Version, versionWords } from './words';

const LOOK_MS = 2_000;
const CALM_MS = 15_000;

const columns: Column<Rollout>[] = [
  {
    title: 'Version',
    cell: ({ version, from_version }) => `${version}, from ${versionWords(from_version)}`,
  },
  { title: 'Group', cell: ({ group }) => group },
  { title: 'Stage', cell: stageWords },
  {
    title: 'State',
    cell: ({ status, reason }) => (
      <Stack gap={0} align="flex-start">
        <State {...rolloutStates[status]} />
        {reason && (
          <Text size="sm" className="wrap">
            {reason}
          </Text>
        )}
      </Stack>
    ),
  },
  { title: 'Begun', cell: ({ created_at }) => <Time at={created_at} /> },
  { title: 'Ended', cell: ({ ended_at }) => <Time at={ended_at} /> },
];

function stageWords({ stage, stages, status, is_promoted }: Rollout): string {
  if (is_promoted) return 'promoted to all';
  if (status === 'completed') return 'all';
  return `${Math.min(stage + 1, stages.length)} of ${stages.length}: ${stages[stage] ?? '–'}`;
}

type Move = 'pause' | 'resume' | 'abort';
const effects: Record<Move, string> = {
  pause: 'No further gateway is moved. Those that were are watched, and return on a failure.',
  resume: 'It goes on; the soak of its stage begins again.',
  abort: 'All gateways that it has moved return at once.',
};
const labels: Record<Move, string> = { pause: 'Pause', resume: 'Resume', abort: 'Abort' };

/** Rollouts, newest first; one that goes on is followed, paused and aborted here. */
export function Rollouts() {
  const [cursor, setCursor] = useState<string>();
  const query = useQuery({
    ...reading('GET /api/config-rollouts', { query: { per_page: 20, ...pageAt(cursor) } }),
    select: withNext(cursor),
    refetchInterval: ({ state: { data } }) =>
      data?.rollouts.some(({ status }) => status === 'running') ? LOOK_MS : CALM_MS,
  });
  const [aborting, setAborting] = useState<Rollout>();
  const move = async (id: string, what: Move) => {
    await call(`POST /api/config-rollouts/:id/${what}`, { names: { id } });
    await refresh('/api/config-rollouts', '/api/gateways');
  };
  return (
    <>
      <DataTable
        label="Rollouts"
        query={query}
        itemsOf={({ rollouts }) => rollouts}
        keyOf={({ id }) => id}
        columns={columns}
        cursor={cursor}
        onCursor={setCursor}
        empty={<Empty title="No rollout">A version is brought to gateways in stages.</Empty>}
        actions={(rollout) => {
          const { id, status } = rollout;
          if (status !== 'running' && status !== 'paused') return null;
          const turn = status === 'running' ? 'pause' : 'resume';
          return (
            <>
              <Button
                size="compact-sm"
                variant="default"
                title={effects[turn]}
                onClick={() => void act(() => move(id, turn))}
              >
                {labels[turn]}
              </Button>
              <Button size="compact-sm" variant="default" onClick={() => setAborting(rollout)}>
                {labels.abort}
              </Button>
            </>
          );
        }}
      />
      <FormModal
        title={`Abort the rollout of version ${aborting?.version ?? ''}`}
        opened={aborting !== undefined}
        onClose={() => setAborting(undefined)}
        submit={async () => {
          if (aborting) await move(aborting.id, 'abort');
          setAborting(undefined);
        }}
        label="Abort"
        is_dangerous
      >
        <Text>{effects.abort}</Text>
      </FormModal>
    </>
  );
}

/** Brings a version that exists to the gateways of a group. */
export function RollOut({
  version,
  onClose,
}: {
  version: Version | undefined;
  onClose: () => void;
}) {
  const [group, setGroup] = useState('default');
  const [stages, setStages] = useState('1, 25%, 100%');
  const [soak_s, setSoak] = useState<number | string>(60);
  const [note, setNote] = useState('');
  useEffect(() => {
    if (version !== undefined) setNote('');
  }, [version]);
  const submit = async (idempotency_key: string) => {
    if (version === undefined) return;
    const steps = stages.split(',').map((one) => one.trim());
    await call('POST /api/config-rollouts', {
      body: {
        version: version.version,
        group: group.trim(),
        stages: steps.map((one) => (/^\d+$/.test(one) ? Number(one) : one)),
        soak_s: Number(soak_s),
        ...(note ? { note } : {}),
      },
      idempotency_key,
    });
    void refresh('/api/config-rollouts', '/api/gateways');
    onClose();
  };
  return (
    <FormModal
      title={`Roll out version ${version?.version ?? ''}`}
      opened={version !== undefined}
      onClose={onClose}
      submit={submit}
      label="Begin"
      is_ready={group.trim() !== '' && stages.trim() !== '' && typeof soak_s === 'number'}
    >
      <TextInput
        label="Group of gateways"
        value={group}
        onChange={(event) => setGroup(event.currentTarget.value)}
      />
      <TextInput
        label="Stages"
        description="Numbers of gateways or shares of them, the last 100%."
        value={stages}
        onChange={(event) => setStages(event.currentTarget.value)}
      />
      <NumberInput
        label="Seconds that each stage is watched"
        value={soak_s}
        onChange={setSoak}
        min={0}
        allowDecimal={false}
      />
      <TextInput
        label="Note"
        value={note}
        onChange={(event) => setNote(event.currentTarget.value)}
        maxLength={1_000}
      />
      <Text size="sm" c="dimmed">
        It supersedes a rollout that goes on in the group. If a stage does worse than the rest, all
        gateways that were moved return.
      </Text>
    </FormModal>
  );
}
