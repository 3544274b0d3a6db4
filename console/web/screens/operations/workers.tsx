import { Alert, Button, Group, List, Table, Text, Title } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { type Answer, call } from '../../api/client';
import { reading } from '../../api/queries';
import { serverNow } from '../../base/clock';
import { oneOf, useFilters } from '../../fields/filters';
import { OnlyOperators } from '../../operations/only-operators';
import { Outbox } from '../../operations/outbox';
import { spanWords } from '../../operations/words';
import { State } from '../../parts/badge';
import { CopyId } from '../../parts/copy-id';
import { Page } from '../../parts/page';
import { Failure, Loading } from '../../parts/states';
import { Time } from '../../parts/time';

type Status = Answer<'GET /api/workers/status'>;

const LOOK_MS = 10_000;

/** What runs behind the API: workers, schedules, messages to Temporal, and the ledger's audit. */
export function Workers() {
  return (
    <OnlyOperators title="Workers">
      <Inside />
    </OnlyOperators>
  );
}

function Inside() {
  const [{ outbox }, set] = useFilters({ outbox: oneOf('waiting', 'parked') });
  const { data, error, refetch } = useQuery({
    ...reading('GET /api/workers/status'),
    refetchInterval: LOOK_MS,
  });
  if (error && data === undefined) return <Failure error={error} retry={() => void refetch()} />;
  if (data === undefined) return <Loading />;
  return (
    <Page title="Workers" about="Who does the work behind the API, and what waits for them.">
      <Health status={data} />
      <Queues status={data} />
      <Schedules status={data} />
      <Outbox status={outbox} set={(status) => set({ outbox: status })} />
      <Audit />
    </Page>
  );
}

function Health({ status: { status, problems, temporal, outbox } }: { status: Status }) {
  if (status === 'ok')
    return (
      <Group gap="xs">
        <State word="all is well" kind="good" />
        <Text>
          Temporal is {temporal}; {outbox.waiting} messages wait, {outbox.parked} were given up.
        </Text>
      </Group>
    );
  return (
    <Alert color="red" title="Something is wrong" role="status">
      <List>
        {problems.map((problem) => (
          <List.Item key={problem}>{problem}</List.Item>
        ))}
      </List>
    </Alert>
  );
}

function Queues({ status: { workers } }: { status: Status }) {
  const rows = workers.flatMap(({ name, queues }) => queues.map((queue) => ({ name, ...queue })));
  return (
    <section>
      <Title order={2} size="h4">
        Queues
      </Title>
      <Plain
        label="Queues"
        titles={['Queue', 'Worker', 'Polled by', 'Waiting', 'Oldest', 'Running', 'Failed in a day']}
        rows={rows.map((one) => ({
          key: one.task_queue,
          cells: [
            one.task_queue,
            one.name,
            one.pollers.length === 0 ? (
              <State key="pollers" word="none" kind="bad" />
            ) : (
              one.pollers.map(({ identity }) => identity).join('; ')
            ),
            one.backlog,
            one.backlog === 0 ? '–' : spanWords(one.oldest_task_age_seconds),
            one.running_workflows,
            one.failed_workflows_last_day,
          ],
        }))}
      />
    </section>
  );
}

const states = {
  active: { word: 'active', kind: 'good' },
  paused: { word: 'paused', kind: 'waiting' },
  missing: { word: 'missing', kind: 'bad' },
} as const;

function Schedules({ status: { schedules } }: { status: Status }) {
  return (
    <section>
      <Title order={2} size="h4">
        Schedules
      </Title>
      <Plain
        label="Schedules"
        titles={['Schedule', 'State', 'Last ended', 'How', 'Next']}
        rows={schedules.map((one) => ({
          key: one.id,
          cells: [
            one.id,
            <State key="state" {...states[one.status]} />,
            <Time key="last" at={one.last_ended_at} />,
            one.last_result ?? '–',
            <Time key="next" at={one.next_at} />,
          ],
        }))}
      />
    </section>
  );
}

function Plain({
  label,
  titles,
  rows,
}: {
  label: string;
  titles: readonly string[];
  rows: readonly { key: string; cells: readonly React.ReactNode[] }[];
}) {
  return (
    <Table.ScrollContainer minWidth={0} type="native" className="table">
      <Table aria-label={label} verticalSpacing="xs">
        <Table.Thead>
          <Table.Tr>
            {titles.map((title) => (
              <Table.Th key={title}>{title}</Table.Th>
            ))}
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {rows.map(({ key, cells }) => (
            <Table.Tr key={key}>
              {cells.map((cell, place) => (
                <Table.Td key={titles[place]} data-title={titles[place]} className="wrap">
                  {cell}
                </Table.Td>
              ))}
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </Table.ScrollContainer>
  );
}

/** Proves the ledger when somebody asks; it reads everything, so not by itself. */
function Audit() {
  const { data, error, refetch, isFetching } = useQuery({
    queryKey: ['/api/audit'],
    queryFn: async ({ signal }) => {
      const found = await call('GET /api/audit', { signal });
      return { ...found, run_at: new Date(serverNow()).toISOString() };
    },
    enabled: false,
  });
  return (
    <section>
      <Title order={2} size="h4">
        Audit of the ledger
      </Title>
      <Group my="xs">
        <Button loading={isFetching} onClick={() => void refetch()}>
          Audit the ledger now
        </Button>
        {data?.clean && <State word="clean: everything adds up" kind="good" />}
        {data && (
          <Text size="sm" c="dimmed">
            Last run: <Time at={data.run_at} />
          </Text>
        )}
      </Group>
      {error && <Failure error={error} />}
      {data && !data.clean && (
        <Alert color="red" title={`${data.broken.length} things do not add up`} role="alert">
          <List>
            {data.broken.map(({ check, wallet_id, detail }) => (
              <List.Item key={`${check} ${wallet_id} ${detail}`}>
                {check}: {detail} {wallet_id && <CopyId value={wallet_id} />}
              </List.Item>
            ))}
          </List>
        </Alert>
      )}
    </section>
  );
}
