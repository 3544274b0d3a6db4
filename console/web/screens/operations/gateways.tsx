import { Group, Stack, Text } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { reading } from '../../api/queries';
import { FilterInput } from '../../fields/filter-input';
import { text, useFilters } from '../../fields/filters';
import { OnlyOperators } from '../../operations/only-operators';
import { drifts, type Gateway, spanWords, versionWords } from '../../operations/words';
import { State } from '../../parts/badge';
import { CopyId } from '../../parts/copy-id';
import { CsvButton } from '../../parts/csv';
import { type Column, DataTable } from '../../parts/data-table';
import { LinkButton } from '../../parts/link';
import { listed } from '../../parts/lists';
import { Page } from '../../parts/page';
import { Empty } from '../../parts/states';
import { Time } from '../../parts/time';

const LOOK_MS = 5_000;

const columns: Column<Gateway>[] = [
  {
    title: 'Gateway',
    cell: ({ host, id }) => (
      <Group gap={4}>
        <span className="wrap">{host}</span>
        <CopyId value={id} />
      </Group>
    ),
  },
  { title: 'Group', cell: ({ group }) => group },
  {
    title: 'Configuration',
    cell: ({ drift, error }) => (
      <Stack gap={0} align="flex-start">
        <State word={drifts[drift].word} kind={drifts[drift].kind} />
        {drift !== 'in_sync' && <Text size="sm">{drifts[drift].about}</Text>}
        {error && (
          <Text size="sm" className="wrap">
            {error}
          </Text>
        )}
      </Stack>
    ),
  },
  {
    title: 'Runs',
    cell: ({ config_version, desired_version }) =>
      config_version === desired_version
        ? versionWords(config_version)
        : `${versionWords(config_version)}, is to run ${versionWords(desired_version)}`,
  },
  { title: 'Software', cell: ({ software_version }) => software_version ?? '–' },
  { title: 'In flight', cell: ({ in_flight }) => in_flight, is_number: true },
  { title: 'Held', cell: ({ held }) => held, is_number: true },
  { title: 'Calls', cell: callWords },
  {
    title: 'Up for',
    cell: ({ uptime_s, state }) => (state === 'draining' ? 'draining' : spanWords(uptime_s)),
  },
  { title: 'Last report', cell: ({ seen_at }) => <Time at={seen_at} /> },
];

function callWords({ counts }: Gateway): string {
  if (counts === null) return '–';
  const faults = [
    [counts.own_5xx, 'own faults'],
    [counts.upstream_5xx, "providers' faults"],
    [counts.refused, 'refused'],
  ] as const;
  const named = faults.filter(([count]) => count > 0).map(([count, what]) => `${count} ${what}`);
  return [`${counts.finished} done`, ...named].join(', ');
}

/** Every gateway: what it runs and is to run, and how its calls end. */
export function Gateways() {
  return (
    <OnlyOperators title="Gateways">
      <Inside />
    </OnlyOperators>
  );
}

function Inside() {
  const [{ group }, set] = useFilters({ group: text });
  const query = useQuery({
    ...reading('GET /api/gateways', { query: { group } }),
    refetchInterval: LOOK_MS,
  });
  return (
    <Page
      title="Gateways"
      about="What each gateway runs, what it should run, and how its calls end."
      actions={
        <LinkButton to="/config" variant="default">
          Configuration
        </LinkButton>
      }
    >
      <Group gap="xs" align="flex-end">
        <FilterInput
          label="Group"
          placeholder="all"
          value={group}
          onFilter={(group) => set({ group })}
          w={200}
        />
        <CsvButton
          file="gateways"
          read={async () => ({ items: query.data?.gateways ?? [], next: null })}
          columns={csv}
        />
      </Group>
      <DataTable
        label="Gateways"
        query={listed(query)}
        itemsOf={({ gateways }) => gateways}
        keyOf={({ id }) => id}
        columns={columns}
        empty={
          <Empty title="No gateway reports">
            A gateway that was killed is shown for ten minutes after its last report.
          </Empty>
        }
      />
    </Page>
  );
}

const csv = [
  { title: 'id', text: ({ id }: Gateway) => id },
  { title: 'host', text: ({ host }: Gateway) => host },
  { title: 'group', text: ({ group }: Gateway) => group },
  { title: 'drift', text: ({ drift }: Gateway) => drift },
  {
    title: 'config_version',
    text: ({ config_version: n }: Gateway) => (n === null ? null : String(n)),
  },
  {
    title: 'desired_version',
    text: ({ desired_version: n }: Gateway) => (n === null ? null : String(n)),
  },
  { title: 'seen_at', text: ({ seen_at }: Gateway) => seen_at },
];
