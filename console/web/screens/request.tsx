import { Accordion, Code, Group, SimpleGrid, Stack, Title } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useParams } from '@tanstack/react-router';
import { reading } from '../api/queries';
import { State } from '../parts/badge';
import { CopyId } from '../parts/copy-id';
import { Money } from '../parts/money';
import { Page } from '../parts/page';
import { Failure, Loading } from '../parts/states';
import { Time } from '../parts/time';
import { Steps } from '../parts/timeline';
import { Bill, Usage } from '../requests/bill';
import { Entries, Facts } from '../requests/facts';
import { type Story, standing, stepsOf } from '../requests/words';

/** One call's whole story: hold, ticket, attempts, usage, the lines of its price, settlement. */
export function Request() {
  const { id = '' } = useParams({ strict: false }) as { id?: string };
  const { data, error, refetch } = useQuery({
    ...reading('GET /api/requests/:id', { names: { id } }),
    // What an answer cost, and what its end was, may come a moment after the call.
    refetchInterval: ({ state }) => (state.data?.settlement ? false : 5_000),
  });
  if (error && data === undefined)
    return (
      <Page title="A call">
        <Failure error={error} retry={() => void refetch()} />
      </Page>
    );
  if (data === undefined) return <Loading />;
  const { settlement, hold } = data;
  return (
    <Page
      title={data.model === null ? 'A call' : `A call of ${data.model}`}
      about={
        <Group gap="xs" component="span">
          <CopyId value={id} />
          <Time at={data.created_at} />
        </Group>
      }
    >
      <Group gap="xl" align="flex-start">
        <Stack gap={0}>
          <span>Cost</span>
          {settlement ? (
            <Money
              amount={settlement.actual_cost}
              currency={settlement.currency}
              size="1.75rem"
              fw={700}
            />
          ) : (
            <span>not settled yet</span>
          )}
        </Stack>
        {hold && (
          <Stack gap={0}>
            <span>{settlement ? 'Was held' : 'Is held'}</span>
            <Money amount={hold.reserved_amount} currency={hold.currency} size="1.75rem" />
          </Stack>
        )}
        <State {...standing(data)} />
      </Group>
      <SimpleGrid cols={{ base: 1, md: 2 }} spacing="xl" verticalSpacing="lg">
        <Stack gap="xs" component="section">
          <Title order={2} size="h4">
            What happened
          </Title>
          <Steps label="What happened" steps={stepsOf(data)} />
        </Stack>
        <Stack gap="xs" component="section">
          <Title order={2} size="h4">
            Who and what
          </Title>
          <Facts story={data} />
        </Stack>
      </SimpleGrid>
      <Section title="What it cost">
        <Bill story={data} />
      </Section>
      <Section title="What was used">
        <Usage story={data} />
      </Section>
      <Section title="In the ledger">
        <Entries story={data} />
      </Section>
      <Events events={data.events} />
    </Page>
  );
}

function Section({ title, children }: { title: string; children: React.ReactNode }) {
  return (
    <Stack gap="xs" component="section" mt="md">
      <Title order={2} size="h4">
        {title}
      </Title>
      {children}
    </Stack>
  );
}

/** The events of the call as they were written, for whoever looks for a fault. */
function Events({ events }: { events: Story['events'] }) {
  if (events.length === 0) return null;
  return (
    <Section title="Events">
      <Accordion multiple order={3} variant="contained">
        {events.map(({ id, type, payload }) => (
          <Accordion.Item key={id} value={id}>
            <Accordion.Control>{type}</Accordion.Control>
            <Accordion.Panel>
              <Code block className="wrap" tabIndex={0}>
                {JSON.stringify(payload, null, 2)}
              </Code>
            </Accordion.Panel>
          </Accordion.Item>
        ))}
      </Accordion>
    </Section>
  );
}
