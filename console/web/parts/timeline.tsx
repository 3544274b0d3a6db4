import { Stack, Text, Timeline } from '@mantine/core';
import type { ReactNode } from 'react';
import { locale } from '../base/locale';
import { Time } from './time';

const colours = {
  good: 'green',
  waiting: 'yellow',
  bad: 'red',
  neutral: 'gray',
  info: 'indigo',
} as const;

/** What happened, the oldest first. The colour of a step says nothing that its words do not. */
export function Steps({
  label,
  steps,
}: {
  label: string;
  steps: readonly {
    at: string;
    title: ReactNode;
    detail?: ReactNode;
    kind: keyof typeof colours;
  }[];
}) {
  return (
    <section aria-label={label}>
      <Timeline active={steps.length} bulletSize={16} lineWidth={2}>
        {steps.map(({ at, title, detail, kind }, place) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: steps have no ids and only grow at the end.
          <Timeline.Item key={place} title={title} color={colours[kind]}>
            <Stack gap={0}>
              {detail && (
                <Text size="sm" component="div" className="wrap">
                  {detail}
                </Text>
              )}
              <Text size="sm" c="dimmed" component="div">
                <Time at={at} />
                {laterText(steps[place - 1]?.at, at)}
              </Text>
            </Stack>
          </Timeline.Item>
        ))}
      </Timeline>
    </section>
  );
}

const seconds = new Intl.NumberFormat(locale, { maximumFractionDigits: 2 });

/** How long after the step before, where times to the minute do not say it. */
function laterText(before: string | undefined, at: string): string {
  const later_ms = before === undefined ? 0 : Date.parse(at) - Date.parse(before);
  if (later_ms <= 0 || later_ms >= 120_000) return '';
  return later_ms < 1_000
    ? `, ${later_ms} ms later`
    : `, ${seconds.format(later_ms / 1_000)} s later`;
}
