import { Text, Tooltip } from '@mantine/core';
import { useEffect, useState } from 'react';
import { zoned } from '../base/days';
import { locale } from '../base/locale';
import { useZone } from '../session/me';

const relative = new Intl.RelativeTimeFormat(locale, { numeric: 'auto', style: 'short' });
const steps = [
  ['day', 86_400],
  ['hour', 3_600],
  ['minute', 60],
  ['second', 1],
] as const;

/** A moment in the organization's zone: `Nov 30, 2026, 17:05`. */
export function timeText(iso: string, zone: string): string {
  return zoned(zone, locale, { dateStyle: 'medium', timeStyle: 'short' }).format(new Date(iso));
}

/** A moment; its zone and seconds are one hover away. */
export function Time({ at }: { at: string | null | undefined }) {
  const zone = useZone();
  if (!at) return <Text component="span">–</Text>;
  const style = { dateStyle: 'full', timeStyle: 'long' } as const;
  const whole = zoned(zone, locale, style).format(new Date(at));
  return (
    <Tooltip label={`${whole} (${zone})`} events={{ hover: true, focus: true, touch: true }}>
      <time dateTime={at} className="nowrap">
        {timeText(at, zone)}
      </time>
    </Tooltip>
  );
}

/**
 * How long until or since a moment, by the server's clock as far as it is known: a browser's may be
 * ten minutes wrong.
 */
export function Countdown({
  until,
  now_ms,
  verb,
}: {
  until: string;
  now_ms: () => number;
  /** What stands before the time that is left: `ends`. */
  verb?: string;
}) {
  const [, tick] = useState(0);
  useEffect(() => {
    const timer = setInterval(() => tick((n) => n + 1), 1_000);
    return () => clearInterval(timer);
  }, []);
  const left_s = Math.round((Date.parse(until) - now_ms()) / 1_000);
  if (left_s <= 0) return <span>expired</span>;
  const [unit, size] = steps.find(([, seconds]) => left_s >= seconds) ?? ['second', 1];
  return (
    <time dateTime={until} className="figures">
      {verb && `${verb} `}
      {relative.format(Math.round(left_s / size), unit)}
    </time>
  );
}
