import { Select } from '@mantine/core';
import type { Answer } from '../api/client';

type OfKey = Answer<'GET /api/keys'>['tokens'][number]['budget_window'];

/** What the budget of a key is for: a calendar window, or its life. */
export type Window = NonNullable<OfKey> | 'life';

const windows: { value: Window; label: string }[] = [
  { value: 'life', label: 'its life' },
  { value: 'hour', label: 'each hour' },
  { value: 'day', label: 'each day' },
  { value: 'week', label: 'each week' },
  { value: 'month', label: 'each month' },
];

/** The window of a key as the API has it. */
export function windowOf(budget_window: OfKey | undefined): Window {
  return budget_window ?? 'life';
}

/** What a budget of this window bounds: `a week`, `an hour`, or `in all`. */
export function windowWords(window: Window): string {
  if (window === 'life') return 'in all';
  return window === 'hour' ? 'an hour' : `a ${window}`;
}

/** The field for the window of a key's budget. */
export function WindowSelect({
  value,
  onChange,
  error,
}: {
  value: Window;
  onChange: (window: Window) => void;
  error?: string | undefined;
}) {
  return (
    <Select
      label="Window"
      description="The budget resets at the start of each window, in the organization's time zone."
      data={windows}
      value={value}
      onChange={(one) => onChange((one ?? 'life') as Window)}
      allowDeselect={false}
      error={error}
    />
  );
}
