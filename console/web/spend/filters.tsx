import { Button, CloseIcon, Group, Select, Switch } from '@mantine/core';
import { addDays } from '../base/days';
import { DayInput } from '../fields/day-input';
import { oneOf, text, useFilters } from '../fields/filters';
import { all, type Dimension, dimensions, type Narrowing, narrowing } from './dimensions';
import { useNames } from './names';
import {
  type Interval,
  intervals,
  movedTo,
  type Period,
  type Preset,
  presets,
  presetWords,
} from './period';

/** All that the address of the page says. */
export const spendShape = {
  period: oneOf(...presets),
  from: text,
  /** The last day that is in. */
  until: text,
  interval: oneOf(...intervals),
  ...narrowing,
  by: oneOf(...all),
  measure: oneOf('cost', 'requests', 'tokens'),
  view: oneOf('chart', 'table'),
  compare: oneOf('before'),
};

export function useSpendFilters() {
  return useFilters(spendShape);
}

export type SpendFilters = ReturnType<typeof useSpendFilters>[0];
export type SetSpendFilters = ReturnType<typeof useSpendFilters>[1];

/** True where figures are of calls with tags. */
export function isTagged(by: Dimension, { tag }: Narrowing): boolean {
  return by === 'tag' || tag !== undefined;
}

/** Which calls, when, and grouped by what. */
export function FilterBar({
  filters,
  set,
  period,
  by,
  interval,
  possible,
}: {
  filters: SpendFilters;
  set: SetSpendFilters;
  period: Period;
  by: Dimension;
  interval: Interval;
  /** The intervals to choose from. */
  possible: Interval[];
}) {
  const custom = (change: { from?: string; until?: string }) => set(movedTo(period, change));
  return (
    <Group gap="xs" align="flex-end">
      <Select
        label="Period"
        data={presets.map((value) => ({ value, label: presetWords[value] }))}
        value={filters.period ?? '30d'}
        onChange={(value) =>
          value === 'custom'
            ? custom({})
            : set({ period: value as Preset, from: undefined, until: undefined })
        }
        allowDeselect={false}
        w={150}
      />
      <DayInput label="From" value={period.from} onDay={(from) => custom({ from })} />
      <DayInput label="To" value={addDays(period.to, -1)} onDay={(until) => custom({ until })} />
      <Select
        label="Group by"
        data={all.map((value) => ({ value, label: dimensions[value].one }))}
        value={by}
        onChange={(value) => set({ by: value as Dimension })}
        allowDeselect={false}
        w={140}
      />
      <Select
        label="Interval"
        data={possible}
        value={interval}
        onChange={(value) => set({ interval: value as Interval })}
        allowDeselect={false}
        w={100}
      />
      <Select
        label="Show"
        data={[
          { value: 'cost', label: 'cost' },
          { value: 'requests', label: 'calls' },
          { value: 'tokens', label: 'tokens' },
        ]}
        value={filters.measure ?? 'cost'}
        onChange={(value) => set({ measure: value as 'cost' })}
        allowDeselect={false}
        w={100}
      />
      <Switch
        label="Compare with the period before"
        checked={filters.compare === 'before'}
        onChange={(event) => set({ compare: event.currentTarget.checked ? 'before' : undefined })}
        mb={8}
      />
    </Group>
  );
}

/** What the calls are narrowed to; each can be taken back. */
export function Narrowed({ filters, set }: { filters: SpendFilters; set: SetSpendFilters }) {
  const narrowed = all.filter((one) => filters[dimensions[one].filter] !== undefined);
  if (narrowed.length === 0) return null;
  return (
    <Group gap="xs" role="group" aria-label="Only calls of">
      {narrowed.map((one) => (
        <Chip key={one} {...{ one, filters, set }} />
      ))}
    </Group>
  );
}

function Chip({ one, filters, set }: { one: Dimension; filters: Narrowing; set: SetSpendFilters }) {
  const { filter, one: word } = dimensions[one];
  const value = filters[filter] ?? '';
  const name = useNames(one, [value])(value);
  return (
    <Button
      size="compact-sm"
      variant="light"
      className="wrap"
      aria-label={`${word}: ${name}, take this filter away`}
      onClick={() => set({ [filter]: undefined })}
      rightSection={<CloseIcon size="0.8em" aria-hidden="true" />}
    >
      {`${word}: ${name}`}
    </Button>
  );
}
