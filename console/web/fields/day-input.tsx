import { TextInput } from '@mantine/core';
import { useState } from 'react';
import { isDay } from '../base/days';

// A year that is being typed is of the first millennium until its last digit.
const FIRST_DAY = '2000-01-01';

/** A field for a day. It says which once a whole one was typed, and keeps what is half typed. */
export function DayInput({
  label,
  value,
  onDay,
  onNone,
  error,
}: {
  label: string;
  /** The day in force, `2026-11-30`. */
  value: string;
  onDay: (day: string) => void;
  /** For a day that may be left out. */
  onNone?: () => void;
  /** Why the day in force finds nothing. */
  error?: string | undefined;
}) {
  const [typed, setTyped] = useState<string>();
  return (
    <TextInput
      type="date"
      label={label}
      value={typed ?? value}
      onChange={(event) => {
        const text = event.currentTarget.value;
        setTyped(text);
        if (isDay(text) && text >= FIRST_DAY) onDay(text);
        if (text === '') onNone?.();
      }}
      error={error}
      onBlur={() => setTyped(undefined)}
    />
  );
}
