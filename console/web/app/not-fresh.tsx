import { Alert, Button, Group, Text } from '@mantine/core';
import { notifyManager } from '@tanstack/react-query';
import { useSyncExternalStore } from 'react';
import { Refusal } from '../api/client';
import { queries, refresh } from '../api/queries';
import { isKnownZone } from '../base/days';
import { Time } from '../parts/time';
import { useReportingZone } from '../session/me';

/** Says since when what is shown may be old, while something of it cannot be read anew. */
export function NotFresh() {
  const since = useSyncExternalStore(hear, oldest);
  if (since === undefined) return null;
  return (
    <Alert color="yellow" role="status" mb="sm" p="xs">
      <Group justify="space-between" gap="xs">
        <Text size="sm">
          Not up to date since <Time at={new Date(since).toISOString()} />
        </Text>
        <Button size="compact-sm" variant="default" onClick={() => void refresh('/api/')}>
          Try again
        </Button>
      </Group>
    </Alert>
  );
}

/** Says that times are shown in another zone than the organization's, which this browser lacks. */
export function UnknownZone() {
  const zone = useReportingZone();
  if (isKnownZone(zone)) return null;
  return (
    <Alert color="yellow" role="status" mb="sm" p="xs">
      This browser does not know the zone {zone}: all times here are of UTC.
    </Alert>
  );
}

function hear(changed: () => void): () => void {
  return queries.getQueryCache().subscribe(notifyManager.batchCalls(changed));
}

/** When the oldest answer came that is on screen and could not be read again; ms since 1970. */
function oldest(): number | undefined {
  const failed = queries
    .getQueryCache()
    .findAll({ type: 'active' })
    .filter(({ state: { data, error } }) => data !== undefined && error !== null && passes(error))
    .map(({ state }) => state.dataUpdatedAt);
  return failed.length === 0 ? undefined : Math.min(...failed);
}

/** Whoever is signed out, or may not see it any more, is told so elsewhere. */
function passes(error: unknown): boolean {
  return !(error instanceof Refusal) || ![401, 403, 404].includes(error.status);
}
