import { Group, Progress, Stack, Text } from '@mantine/core';
import { State } from '../parts/badge';
import { count, type Export, isUnderWay, sizeText, states } from './words';

/** How an export stands; while it is written, in parts and rows. */
export function Standing({ one }: { one: Export }) {
  const { status, parts_done, parts_total, rows, bytes, error_message } = one;
  return (
    <Stack gap={4} miw={160}>
      <Group gap="xs">
        <State {...states[status]} />
        {status === 'completed' && (
          <Text size="sm" component="span">
            {count.format(rows)} rows, {sizeText(bytes)}
          </Text>
        )}
      </Group>
      {isUnderWay(one) && (
        <>
          <Progress
            value={parts_total === 0 ? 0 : (100 * parts_done) / parts_total}
            aria-label="Parts that are written"
          />
          <Text size="sm" aria-live="polite">
            {parts_done} of {parts_total} parts, {count.format(rows)} rows
          </Text>
        </>
      )}
      {error_message && (
        <Text size="sm" className="wrap">
          {error_message}
        </Text>
      )}
    </Stack>
  );
}
