import { Anchor, ColorSwatch, Group, Table, Text } from '@mantine/core';
import type { UseQueryResult } from '@tanstack/react-query';
import type { Answer } from '../api/client';
import { amountOf, nanosOf } from '../base/decimals';
import { locale } from '../base/locale';
import { type Column, DataTable } from '../parts/data-table';
import { Money } from '../parts/money';
import { Empty } from '../parts/states';
import { colours, OTHERS } from './colours';
import { type Dimension, dimensions } from './dimensions';
import type { Bar, Measure } from './series';

export type Top = Answer<'GET /api/spend/top'>;
type Group_ = Top['groups'][number];

const count = new Intl.NumberFormat(locale);
const percent = new Intl.NumberFormat(locale, { style: 'percent', minimumFractionDigits: 1 });
const change = new Intl.NumberFormat(locale, {
  style: 'percent',
  maximumFractionDigits: 0,
  signDisplay: 'exceptZero',
});

/** How much more it is than before; a dash where there is nothing to compare with. */
export function changeText(now: number, before: number): string {
  return before === 0 ? '–' : change.format((now - before) / before);
}

/** The groups by what they cost; a press on a name narrows to it. */
export function Ranking({
  query,
  earlier,
  by,
  nameOf,
  onPick,
}: {
  query: UseQueryResult<Top & { has_more: boolean }>;
  /** The period before, if it is compared with. */
  earlier: Top | undefined;
  by: Dimension;
  nameOf: (id: string | null) => string;
  onPick: (id: string) => void;
}) {
  const { data } = query;
  const currency = data?.currency ?? 'USD';
  const all = data === undefined ? 0n : nanosOf(data.totals.cost);
  const groups = data?.groups ?? [];
  const places = new Map(groups.map(({ group }, place) => [group[by] ?? null, place]));
  const before = new Map(earlier?.groups.map((one) => [one.group[by] ?? null, one.cost]));
  const columns: Column<Group_>[] = [
    {
      title: dimensions[by].one,
      cell: ({ group }) => {
        const id = group[by] ?? null;
        return <Name {...{ id, name: nameOf(id), place: places.get(id) ?? 0, onPick }} />;
      },
    },
    {
      title: 'Cost',
      is_number: true,
      cell: ({ cost }) => <Money amount={cost} currency={currency} />,
    },
    {
      title: 'Share',
      is_number: true,
      cell: ({ cost }) =>
        all === 0n ? '–' : percent.format(Number((nanosOf(cost) * 10_000n) / all) / 10_000),
    },
    ...(earlier ? comparison(earlier, currency, before, by) : []),
    { title: 'Calls', is_number: true, cell: ({ requests }) => count.format(requests) },
    { title: 'Input tokens', is_number: true, cell: (one) => count.format(one.prompt_tokens) },
    { title: 'Cached', is_number: true, cell: (one) => count.format(one.cached_tokens) },
    { title: 'Output tokens', is_number: true, cell: (one) => count.format(one.completion_tokens) },
  ];
  return (
    <>
      <DataTable
        label={`Cost by ${dimensions[by].one.toLowerCase()}`}
        query={query}
        itemsOf={(found) => found.groups}
        keyOf={({ group }) => group[by] ?? ''}
        columns={columns}
        empty={<Empty title="No calls">Nothing was settled in this period.</Empty>}
      />
      {data?.truncated && (
        <Text size="sm" c="dimmed">
          These are the {groups.length} that cost most. The file has up to 200.
        </Text>
      )}
    </>
  );
}

function comparison(
  earlier: Top,
  currency: string,
  before: ReadonlyMap<string | null, number>,
  by: Dimension,
): Column<Group_>[] {
  // Unlike 0: the group may be among those that the earlier answer left out.
  const costOf = ({ group }: Group_) =>
    before.get(group[by] ?? null) ?? (earlier.truncated ? undefined : 0);
  return [
    {
      title: 'Before',
      is_number: true,
      cell: (one) => <Money amount={costOf(one)} currency={currency} />,
    },
    { title: 'Change', is_number: true, cell: (one) => changeText(one.cost, costOf(one) ?? 0) },
  ];
}

function Name({
  id,
  name,
  place,
  onPick,
}: {
  id: string | null;
  name: string;
  place: number;
  onPick: (id: string) => void;
}) {
  return (
    <Group gap={8} wrap="nowrap">
      <ColorSwatch size={12} color={cssColour(colours[place] ?? OTHERS)} withShadow={false} />
      {id === null ? (
        <Text span c="dimmed">
          {name}
        </Text>
      ) : (
        <Anchor
          component="button"
          type="button"
          className="wrap"
          ta="left"
          onClick={() => onPick(id)}
          title={`Only calls of ${name}`}
        >
          {name}
        </Anchor>
      )}
    </Group>
  );
}

function cssColour(name: string): string {
  return `var(--mantine-color-${name.replace('.', '-')})`;
}

/** The chart's twin: the same figures in rows. */
export function BarTable({
  bars,
  names,
  has_others,
  measure,
  currency,
}: {
  bars: readonly Bar[];
  names: readonly string[];
  has_others: boolean;
  measure: Measure;
  currency: string;
}) {
  // By their places, as two groups may have one name.
  const columns = names.map((name, place) => ({ id: `p${place}`, name }));
  const shown = (value: bigint, { has_calls }: Bar) => {
    if (!has_calls) return '–';
    if (measure !== 'cost') return count.format(value);
    return <Money amount={amountOf(value)} currency={currency} />;
  };
  return (
    <Table.ScrollContainer
      minWidth={500}
      type="native"
      tabIndex={0}
      aria-label="The chart's figures"
    >
      <Table aria-label="The chart's figures" stickyHeader>
        <Table.Thead>
          <Table.Tr>
            <Table.Th>When</Table.Th>
            {columns.map(({ id, name }) => (
              <Table.Th key={id} ta="right">
                {name}
              </Table.Th>
            ))}
            {has_others && <Table.Th ta="right">others</Table.Th>}
            <Table.Th ta="right">All</Table.Th>
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {bars.map((bar) => (
            <Table.Tr key={bar.key}>
              <Table.Th scope="row" className="nowrap" fw={400}>
                {bar.label}
              </Table.Th>
              {bar.parts.map((part, place) => (
                <Table.Td key={columns[place]?.id} ta="right" className="figures">
                  {shown(part, bar)}
                </Table.Td>
              ))}
              {has_others && (
                <Table.Td ta="right" className="figures">
                  {shown(bar.others, bar)}
                </Table.Td>
              )}
              <Table.Td ta="right" className="figures" fw={600}>
                {shown(bar.total, bar)}
              </Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </Table.ScrollContainer>
  );
}
