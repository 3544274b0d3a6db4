import { beginOf, isDay } from '../base/days';
import { useZone } from '../session/me';
import { DayInput } from './day-input';
import { text } from './filters';

/** The days of a list, as the address of its page has them: from inclusive, before exclusive. */
export interface Days {
  from?: string | undefined;
  before?: string | undefined;
}

export const dayShape = { from: text, before: text };

/** Between which moments these days are, by a zone. */
export function momentsOf({ from, before }: Days, zone: string): { from?: string; to?: string } {
  return {
    ...(isDay(from) ? { from: beginOf(from, zone) } : {}),
    ...(isDay(before) ? { to: beginOf(before, zone) } : {}),
  };
}

/** On which days, by the zone in which times are shown; an empty field is no bound. */
export function DayRange({ days, set }: { days: Days; set: (change: Days) => void }) {
  const zone = useZone();
  const { from, before } = days;
  const is_empty = isDay(from) && isDay(before) && before <= from;
  return (
    <>
      <DayInput
        label={`From (${zone})`}
        value={from ?? ''}
        onDay={(from) => set({ from })}
        onNone={() => set({ from: undefined })}
      />
      <DayInput
        label={`Before (${zone})`}
        value={before ?? ''}
        onDay={(before) => set({ before })}
        onNone={() => set({ before: undefined })}
        error={is_empty ? 'Not after the day in From: no day lies between them.' : undefined}
      />
    </>
  );
}
