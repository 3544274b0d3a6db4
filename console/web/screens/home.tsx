import { Card, Group, List, SimpleGrid, Stack, Text, Title } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { reading } from '../api/queries';
import { serverNow } from '../base/clock';
import { addDays, dayIn } from '../base/days';
import { HealthStrip } from '../operations/health-strip';
import { AppLink, LinkButton } from '../parts/link';
import { Money } from '../parts/money';
import { Page } from '../parts/page';
import { Empty, Failure, LoadingRows } from '../parts/states';
import { Time } from '../parts/time';
import { decidesTickets, ledTeams, type Me, may, meQuery, useMe, useZone } from '../session/me';
import { openTickets } from '../tickets/open-tickets';
import { useBank } from '../wallets/bank';
import { emptyAt, perDay, spentOn, whoseSpending } from '../wallets/pace';
import { payersOf } from '../wallets/payers';

const DAYS = 7;

/** What pays for calls now, how long it lasts, and what waits for a person. */
export function Home() {
  const me = useMe();
  if (me.acting_org === null)
    return (
      <Page title="Home">
        {may(me, 'platform:admin') && <HealthStrip />}
        <NoOrganization />
      </Page>
    );
  return (
    <Page title="Home">
      {may(me, 'platform:admin') && <HealthStrip />}
      <SimpleGrid cols={{ base: 1, md: 2 }}>
        <Payer />
        <Waiting me={me} />
        <Spent />
        <TopModels />
      </SimpleGrid>
    </Page>
  );
}

/** For an operator who looks at no organization: the way to the first, if there is none. */
function NoOrganization() {
  const { data, error, refetch } = useQuery(
    reading('GET /api/organizations', { query: { per_page: 1 } }),
  );
  if (error && data === undefined) return <Failure error={error} retry={() => void refetch()} />;
  if (data === undefined) return <LoadingRows />;
  if (data.organizations.length > 0)
    return (
      <Empty title="Choose an organization">
        You are an operator of the platform. Choose one in the menu at the top, or{' '}
        <AppLink to="/setup">set another one up</AppLink>.
      </Empty>
    );
  return (
    <Stack align="center" gap="sm" py="xl" ta="center">
      <Title order={2} size="h4">
        Nothing is here yet
      </Title>
      <Text c="dimmed">
        Five screens lead to the first call that is paid: an organization, a price, a provider,
        money, and a key.
      </Text>
      <LinkButton to="/setup">Begin</LinkButton>
    </Stack>
  );
}

function Payer() {
  const { data, error, refetch } = useQuery({
    ...reading('GET /api/wallets/balance'),
    refetchInterval: 30_000,
  });
  // Says what each team of the viewer has.
  const { data: me } = useQuery({ ...meQuery, refetchInterval: 30_000 });
  const payers = data && me && payersOf(me, data);
  if (error && data === undefined) return <Failure error={error} retry={() => void refetch()} />;
  return (
    <Card withBorder component="section">
      <Title order={2} size="h4">
        What pays for your calls
      </Title>
      {data === undefined || payers === undefined ? (
        <LoadingRows />
      ) : (
        <Stack gap="xs" mt="xs">
          {payers.payer ? (
            <Money amount={payers.payer.amount} currency={data.currency} size="2rem" fw={700} />
          ) : (
            <Text>It depends on the team of the key.</Text>
          )}
          <List listStyleType="none">
            {payers.rows.map(({ id, words, amount, pays }) => (
              <List.Item key={id} fw={pays ? 700 : 400}>
                {words}: <Money amount={amount} currency={data.currency} />
                {pays && ` (pays ${pays})`}
              </List.Item>
            ))}
          </List>
          <Group>
            <LinkButton to="/top-up" size="xs">
              Top up
            </LinkButton>
          </Group>
        </Stack>
      )}
    </Card>
  );
}

function Waiting({ me }: { me: Me }) {
  const { data, error, refetch } = useQuery({ ...openTickets(me), refetchInterval: 30_000 });
  if (error && data === undefined) return <Failure error={error} retry={() => void refetch()} />;
  const count = data !== undefined && 'total' in data ? data.total : undefined;
  return (
    <Card withBorder component="section">
      <Title order={2} size="h4">
        {decidesTickets(me) ? 'Waiting for you' : 'Your calls that wait'}
      </Title>
      {count === undefined ? (
        <LoadingRows />
      ) : (
        <Stack gap="xs" mt="xs" align="flex-start">
          <Text size="2rem" fw={700}>
            {count === 0 ? 'None' : count}
          </Text>
          <AppLink to="/tickets">See the tickets</AppLink>
        </Stack>
      )}
    </Card>
  );
}

/** The day with which the last days began, in the organization's zone: `2026-11-24`. */
function useFirstDay(): string {
  const zone = useZone();
  return addDays(dayIn(zone, serverNow()), 1 - DAYS);
}

/** The last days; the server makes the days and the sum. */
function useWeek() {
  const from = useFirstDay();
  return useQuery({
    ...reading('GET /api/spend', { query: { from, interval: 'day' } }),
    refetchInterval: 60_000,
  });
}

/** What is out of the organization's wallet for calls under way, and partly comes back. */
function Held() {
  const bank = useBank().data?.wallets[0];
  if (bank === undefined) return null;
  return (
    <Text>
      <Money amount={bank.reserved} currency={bank.currency} /> of the organization are held for
      calls under way.
    </Text>
  );
}

function Spent() {
  const me = useMe();
  const zone = useZone();
  const { data, error, refetch } = useWeek();
  if (error && data === undefined) return <Failure error={error} retry={() => void refetch()} />;
  return (
    <Card withBorder component="section">
      <Title order={2} size="h4">
        {whoseWords(me)}, last {DAYS} days
      </Title>
      {data === undefined ? (
        <LoadingRows />
      ) : (
        <Stack gap="xs" mt="xs">
          <Money amount={data.totals.cost} currency={data.currency} size="2rem" fw={700} />
          <Text>
            {data.totals.requests} {data.totals.requests === 1 ? 'call' : 'calls'},{' '}
            <Money amount={perDay(data.totals.cost, DAYS)} currency={data.currency} is_about /> a
            day; today{' '}
            <Money
              amount={spentOn(dayIn(zone, serverNow()), data.buckets)}
              currency={data.currency}
            />
          </Text>
          {may(me, 'org:billing') && <Held />}
          <Lasts />
        </Stack>
      )}
    </Card>
  );
}

/** Whose spend the figures are that a person is shown. */
function whoseWords(me: Me): string {
  if (may(me, 'org:billing')) return 'Spend';
  return ledTeams(me).length > 0 ? "Your and your teams' spend" : 'Your spend';
}

const whose_wallet = { user: 'your wallet', organization: "the organization's wallet" } as const;

/** Until when the wallet lasts, by the spending that it may pay for. */
function Lasts() {
  const me = useMe();
  const from = useFirstDay();
  const { data: balance } = useQuery(reading('GET /api/wallets/balance'));
  const paying = balance && payersOf(me, balance).payer;
  const payer = paying?.type ?? 'team';
  const whose = whoseSpending(payer, {
    user_id: me.user?.user_id ?? null,
    sees_all: may(me, 'org:billing'),
  });
  const { data, isPlaceholderData } = useQuery({
    ...reading('GET /api/spend', { query: { from, interval: 'day', ...whose } }),
    enabled: whose !== undefined,
  });
  if (whose === undefined || payer === 'team' || data === undefined || isPlaceholderData)
    return null;
  const left = paying?.amount ?? 0;
  // A wallet that paid nothing for days is spent at the pace of the days since.
  const first = data.buckets.find(({ cost }) => cost > 0)?.start ?? data.from;
  const since_ms = Date.parse(first);
  const ends = emptyAt(left, data.totals.cost, { since_ms, now_ms: serverNow() });
  if (ends === undefined) return null;
  return (
    <Text>
      At this pace {whose_wallet[payer]} lasts until about <Time at={ends.toISOString()} />.
    </Text>
  );
}

function TopModels() {
  const from = useFirstDay();
  const { data, error, refetch } = useQuery(
    reading('GET /api/spend/top', { query: { from, by: 'model', limit: 5 } }),
  );
  if (error && data === undefined) return <Failure error={error} retry={() => void refetch()} />;
  return (
    <Card withBorder component="section">
      <Title order={2} size="h4">
        Models that cost most
      </Title>
      {data === undefined ? (
        <LoadingRows />
      ) : (
        <Stack gap={4} mt="xs">
          {data.groups.length === 0 && <Text c="dimmed">No calls in {DAYS} days.</Text>}
          {data.groups.map(({ group, cost }) => (
            <Group key={group.model} justify="space-between" wrap="nowrap">
              <span className="wrap">{group.model ?? 'unknown'}</span>
              <Money amount={cost} currency={data.currency} />
            </Group>
          ))}
        </Stack>
      )}
    </Card>
  );
}
