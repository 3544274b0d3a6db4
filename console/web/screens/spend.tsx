import { Button, Group, SegmentedControl, SimpleGrid, Stack, Text } from '@mantine/core';
import { type UseQueryResult, useQuery } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import { type Query, queryText } from '../api/client';
import { reading } from '../api/queries';
import { locale } from '../base/locale';
import { keepFile } from '../parts/file-link';
import { Money } from '../parts/money';
import { Page } from '../parts/page';
import { Stale } from '../parts/stale';
import { Failure, LoadingRows } from '../parts/states';
import { useZone } from '../session/me';
import { Bars } from '../spend/chart';
import { all, type Dimension, dimensions, nextDimension } from '../spend/dimensions';
import {
  FilterBar,
  isTagged,
  Narrowed,
  type SpendFilters,
  useSpendFilters,
} from '../spend/filters';
import { useNames } from '../spend/names';
import { before, daysOf, type Interval, intervalsOf, periodOf, slotsOf } from '../spend/period';
import { barsOf } from '../spend/series';
import { BarTable, changeText, Ranking, type Top } from '../spend/tables';

const STACKED = 8;
const RANKED = 50;
const RANKED_MAX = 200;

const count = new Intl.NumberFormat(locale);
/** Who may not read events hears of no call: the page looks by itself. */
const LOOK_MS = 30_000;

/** What calls cost: when, and by whom or what; a click narrows. */
export function Spend() {
  const [filters, set] = useSpendFilters();
  const zone = useZone();
  const period = periodOf(filters as { from?: string }, zone);
  const by = filters.by ?? 'model';
  const possible = intervalsOf(period, isTagged(by, filters), zone);
  const interval = possible.find((one) => one === filters.interval) ?? 'day';
  const narrowed = narrowedBy(filters);
  const asked = { ...period, ...narrowed };
  const ranking = useQuery({
    ...reading('GET /api/spend/top', { query: { ...asked, by, limit: RANKED } }),
    refetchInterval: LOOK_MS,
    select: (top) => ({ ...top, has_more: false }),
  });
  const earlier = useQuery({
    ...reading('GET /api/spend/top', {
      query: { ...before(period, filters.period), ...narrowed, by, limit: RANKED_MAX },
    }),
    enabled: filters.compare !== undefined,
  });
  const is_compared = filters.compare !== undefined && !earlier.isPlaceholderData;
  const compared = is_compared ? earlier.data : undefined;
  const groups = fitting(ranking, by).data?.groups ?? [];
  const nameOf = useNames(
    by,
    groups.map(({ group }) => group[by] ?? null),
  );
  const pick = (id: string) => set({ [dimensions[by].filter]: id, by: nextDimension(by, filters) });
  return (
    <Page
      title="Spend"
      about={aboutOf(zone, ranking.data?.time_zone)}
      actions={<Files {...{ asked, by, interval }} />}
    >
      <FilterBar {...{ filters, set, period, by, interval, possible }} />
      <Narrowed {...{ filters, set }} />
      {ranking.error && ranking.data === undefined ? (
        <Failure error={ranking.error} retry={() => void ranking.refetch()} />
      ) : (
        <>
          {ranking.data && (
            <Stale is_stale={ranking.isPlaceholderData}>
              <Totals now={ranking.data} earlier={compared} />
            </Stale>
          )}
          <Group justify="flex-end">
            <SegmentedControl
              aria-label="Show the figures as"
              data={[
                { value: 'chart', label: 'Chart' },
                { value: 'table', label: 'Table' },
              ]}
              value={filters.view ?? 'chart'}
              onChange={(view) => set({ view: view as 'chart' })}
            />
          </Group>
          <Chart {...{ asked, interval, by, filters, nameOf, onPick: pick }} />
          <Ranking
            {...{ query: fitting(ranking, by), earlier: compared, by, nameOf, onPick: pick }}
          />
        </>
      )}
    </Page>
  );
}

/** While days are counted anew for another zone, the figures are of the one before. */
function aboutOf(zone: string, of_figures = zone): string {
  const words = `Exact to the last second, by days of ${of_figures}.`;
  return of_figures === zone ? words : `${words} Days of ${zone} are being counted.`;
}

function narrowedBy(filters: SpendFilters) {
  return Object.fromEntries(
    all.flatMap((one) => {
      const { filter } = dimensions[one];
      return filters[filter] === undefined ? [] : [[filter, filters[filter]]];
    }),
  ) as Query<'GET /api/spend'>;
}

/** The groups, unless those that are kept are of another kind, whose names would be wrong. */
function fitting<Found extends { by: string }>(query: UseQueryResult<Found>, by: Dimension) {
  if (query.data === undefined || query.data.by === by) return query;
  return { ...query, data: undefined, isPlaceholderData: false } as unknown as typeof query;
}

type Asked = Query<'GET /api/spend'>;

/** The same figures as files. */
function Files({ asked, by, interval }: { asked: Asked; by: Dimension; interval: Interval }) {
  const ranking = queryText({ ...asked, by, limit: RANKED_MAX });
  const buckets = queryText({ ...asked, interval, ...groupedBy(asked, by) });
  return (
    <>
      <Button
        component="a"
        href={`/api/spend/top/csv${ranking}`}
        onClick={(event) => keepFile(event, leftOut(by))}
        variant="default"
        size="xs"
      >
        Ranking as CSV
      </Button>
      <Button
        component="a"
        href={`/api/spend/csv${buckets}`}
        onClick={(event) => keepFile(event, leftOut(by))}
        variant="default"
        size="xs"
      >
        Every {interval} as CSV
      </Button>
    </>
  );
}

/** The server groups calls by session only within one session. */
function groupedBy(asked: Asked, by: Dimension): { group_by?: string } {
  return by === 'session' && asked?.session_id === undefined ? {} : { group_by: by };
}

/** What a file has that leaves groups out. */
function leftOut(by: Dimension): string {
  return by === 'tag'
    ? 'It has the tags that cost most. Narrow the period or the filters for the rest.'
    : 'It has those that cost most, each by itself; its line "others" is the rest.';
}

function Totals({ now, earlier }: { now: Top; earlier: Top | undefined }) {
  const { totals, currency } = now;
  const cached = totals.prompt_tokens === 0 ? 0 : totals.cached_tokens / totals.prompt_tokens;
  const was = earlier?.totals;
  return (
    <SimpleGrid cols={{ base: 2, sm: 4 }}>
      <Figure title="Cost" note={was && `${changeText(totals.cost, was.cost)} against before`}>
        <Money amount={totals.cost} currency={currency} size="1.5rem" fw={700} />
        {was && (
          <Text size="sm" component="div">
            before: <Money amount={was.cost} currency={currency} />
          </Text>
        )}
      </Figure>
      <Figure
        title="Calls"
        note={was && `before: ${count.format(was.requests)}`}
        value={count.format(totals.requests)}
      />
      <Figure
        title="Input tokens"
        value={count.format(totals.prompt_tokens)}
        note={cached > 0 ? `${Math.round(cached * 100)} % of them read from a cache` : undefined}
      />
      <Figure title="Output tokens" value={count.format(totals.completion_tokens)} />
    </SimpleGrid>
  );
}

function Figure({
  title,
  value,
  note,
  children,
}: {
  title: string;
  value?: string;
  note?: string | undefined;
  children?: ReactNode;
}) {
  return (
    <Stack gap={0}>
      <span>{title}</span>
      {children ?? (
        <Text size="1.5rem" fw={700} className="figures">
          {value}
        </Text>
      )}
      {note && (
        <Text size="sm" c="dimmed">
          {note}
        </Text>
      )}
    </Stack>
  );
}

function Chart({
  asked,
  interval,
  by,
  filters,
  nameOf,
  onPick,
}: {
  asked: Asked;
  interval: Interval;
  by: Dimension;
  filters: SpendFilters;
  nameOf: (id: string | null) => string;
  onPick: (id: string) => void;
}) {
  const measure = filters.measure ?? 'cost';
  const sums = useQuery({
    ...reading('GET /api/spend', { query: { ...asked, interval } }),
    refetchInterval: LOOK_MS,
  });
  const grouped = useQuery({
    ...reading('GET /api/spend', { query: { ...asked, interval, ...groupedBy(asked, by) } }),
    refetchInterval: LOOK_MS,
  });
  // As often as the ranking of the page, whose query this is.
  const ranked = useQuery(
    reading('GET /api/spend/top', { query: { ...asked, by, limit: RANKED } }),
  );
  // What was known stays: a line above all says that it is old.
  const failed = [sums, grouped].find(({ data, error }) => data === undefined && error);
  if (failed) return <Failure error={failed.error} retry={() => void failed.refetch()} />;
  if (!sums.data || !grouped.data || ranked.data?.by !== by) return <LoadingRows />;
  // The ranking below says that there are no calls; days without any are no chart.
  if (sums.data.buckets.length === 0) return null;
  const { currency, time_zone: zone, from: begins, to: ends } = sums.data;
  const starts = sums.data.buckets.map(({ start }) => start);
  const is_grouped = groupedBy(asked, by).group_by !== undefined;
  const first = is_grouped
    ? ranked.data.groups.slice(0, STACKED).map(({ group }) => group[by] ?? null)
    : [];
  const bars = barsOf({
    // The answer's own days: it may be the one before, kept while another period is asked for.
    slots: slotsOf(daysOf({ begins, ends }, zone), interval, {
      ...{ begins, ends, zone, locale, starts },
    }),
    sums: sums.data.buckets,
    buckets: is_grouped ? grouped.data.buckets : [],
    first,
    by,
    measure,
    overlaps: by === 'tag',
    is_hour: interval === 'hour',
  });
  const names = first.map(nameOf);
  const has_others = bars.some(({ others }) => others !== 0n);
  const shown = { bars, names, has_others, measure, currency } as const;
  const pickPlace = (place: number) => {
    const id = first[place];
    if (id) onPick(id);
  };
  const is_stale = [sums, grouped, ranked].some((one) => one.isPlaceholderData);
  return (
    <Stale is_stale={is_stale}>
      {filters.view === 'table' ? <BarTable {...shown} /> : <Bars {...shown} onPick={pickPlace} />}
      {by === 'tag' && (
        <Text size="sm" c="dimmed">
          A call with several tags counts under each of them, so bars of tags may be higher than all
          calls together.
        </Text>
      )}
      {by === 'tag' && grouped.data.truncated && (
        <Text size="sm">
          There are more tags than fit: the chart has those that cost most. Narrow the period or the
          filters for the rest.
        </Text>
      )}
    </Stale>
  );
}
