import { Group, Stack, Tabs, Text } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useParams } from '@tanstack/react-router';
import { type Answer, call } from '../api/client';
import { reading } from '../api/queries';
import { nextOf, PART_ROWS, type ReadPart } from '../api/whole';
import { serverNow } from '../base/clock';
import type { AnyColumn } from '../base/csv';
import { decimalText } from '../base/decimals';
import { dayShape } from '../fields/day-range';
import { oneOf, text, useFilters } from '../fields/filters';
import { State } from '../parts/badge';
import { CopyId } from '../parts/copy-id';
import { CsvButton } from '../parts/csv';
import { type Column, DataTable } from '../parts/data-table';
import { NotSeen } from '../parts/guarded';
import { AppLink } from '../parts/link';
import { Money } from '../parts/money';
import { PersonName } from '../parts/names';
import { Page } from '../parts/page';
import { Empty, Failure, Loading } from '../parts/states';
import { Countdown, Time } from '../parts/time';
import { movesMoneyOf, TeamPeople } from '../people/team-people';
import type { Team } from '../people/words';
import { may, PageOrg, useMe } from '../session/me';
import { useThreshold } from '../session/rules';
import { entryTypes } from '../wallets/entry-words';
import { Ledger } from '../wallets/ledger';
import { ThresholdButton } from '../wallets/threshold';
import { standing } from '../wallets/words';

type Hold = Answer<'GET /api/wallets/:id/reservations'>['reservations'][number];

const shape = {
  tab: oneOf('ledger', 'holds', 'members'),
  type: oneOf(...entryTypes),
  model: text,
  request_id: text,
  ...dayShape,
  cursor: text,
};

/** One wallet: its balance, its ledger with the balance after each entry, and its open holds. */
export function Wallet() {
  const { id = '' } = useParams({ strict: false }) as { id?: string };
  const [filters, set] = useFilters(shape);
  const bills = may(useMe(), 'org:billing');
  const { data, error, refetch } = useQuery({
    ...reading('GET /api/wallets/:id', { names: { id } }),
    refetchInterval: 30_000,
  });
  const threshold = useThreshold(data?.owner_org_id ?? null);
  const team = useTeam(data?.owner_team_id ?? null);
  if (error && data === undefined)
    return (
      <Page title="Wallet">
        <Failure error={error} retry={() => void refetch()} />
      </Page>
    );
  if (data === undefined) return <Loading />;
  return (
    <PageOrg value={data.owner_org_id}>
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
            {team && <Tabs.Tab value="members">Give and take back</Tabs.Tab>}
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
          <Tabs.Panel value="members" pt="md">
            {team ? (
              <TeamPeople team={team} />
            ) : (
              <Text>This is the wallet of no team of yours.</Text>
            )}
          </Tabs.Panel>
        </Tabs>
      </Page>
    </PageOrg>
  );
}

/** The team whose wallet it is, if the viewer may move its money. */
function useTeam(team_id: string | null): Team | undefined {
  const me = useMe();
  const is_mover = team_id !== null && movesMoneyOf(me, { id: team_id, archived_at: null });
  const { data } = useQuery({
    ...reading('GET /api/organizations/:id/teams/:team_id', {
      names: { id: me.acting_org ?? '', team_id: team_id ?? '' },
    }),
    enabled: is_mover,
  });
  return data && movesMoneyOf(me, data) ? data : undefined;
}

type FilterProps = {
  filters: ReturnType<typeof useFilters<typeof shape>>[0];
  set: ReturnType<typeof useFilters<typeof shape>>[1];
};

function Holds({ id, filters, set }: { id: string } & FilterProps) {
  const query = useQuery({
    ...reading('GET /api/wallets/:id/reservations', {
      names: { id },
      query: { status: 'open', cursor: filters.cursor ?? 'first', per_page: 50 },
    }),
    refetchInterval: 10_000,
  });
  const read: ReadPart<Hold> = async (place = 'first') => {
    const answer = await call('GET /api/wallets/:id/reservations', {
      names: { id },
      query: { status: 'open', cursor: place, per_page: PART_ROWS },
    });
    return { items: answer.reservations, next: nextOf(answer) };
  };
  return (
    <>
      <Group justify="flex-end" mb="sm">
        <CsvButton file="open-holds" read={read} columns={holdCsv} />
      </Group>
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
    </>
  );
}

const holdCsv: AnyColumn<Hold>[] = [
  { title: 'reservation_id', text: ({ reservation_id }) => reservation_id },
  { title: 'created_at', text: ({ created_at }) => created_at },
  { title: 'expires_at', text: ({ expires_at }) => expires_at },
  { title: 'model', text: ({ model }) => model },
  { title: 'reserved_amount', text: ({ reserved_amount }) => decimalText(reserved_amount) },
  { title: 'currency', text: ({ currency }) => currency },
  { title: 'user_id', text: ({ user_id }) => user_id },
  { title: 'user_name', name_of: ({ user_id }) => user_id },
  { title: 'request_id', text: ({ request_id }) => request_id },
];

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
