import { setTimeout as sleep } from 'node:timers/promises';
import { many } from '../../domain/sql';
import { type Counters, openCounters } from '../../gateway/limits/counters';
import { openLimits } from '../../gateway/limits/engine';
import { createLog } from '../../runtime/log';
import type { TestGateway, World } from './gateway';
import { until } from './until';

type More = Parameters<World['openGateway']>[0];

/**
 * A gateway whose clock stands still a second after the beginning of a minute: no test crosses its
 * edge, however long it takes.
 */
export async function openAtMinute(world: World, more: More): Promise<TestGateway> {
  const now = Date.now();
  return openByClock(world, more, () => now - (now % 60_000) + 1_000);
}

/** Waits for the next day if this one ends soon, for what counts by the clock of the database. */
export async function awayFromDayEnd(): Promise<void> {
  const left_ms = 86_400_000 - (Date.now() % 86_400_000);
  if (left_ms < 60_000) await sleep(left_ms);
}

/** A gateway that counts by the given clock. */
export async function openByClock(
  world: World,
  more: More,
  clock: () => number,
): Promise<TestGateway> {
  return openCounting(world, more, { clock });
}

/** A gateway whose limits have a store that may answer late: a busy machine is no outage. */
export async function openSharing(world: World, more: More): Promise<TestGateway> {
  return openCounting(world, more, { patience_ms: 10_000 });
}

async function openCounting(
  world: World,
  more: More,
  times: Parameters<typeof openCounters>[1],
): Promise<TestGateway> {
  const opened = await world.openGateway(more);
  const { gateway } = opened;
  await gateway.limits.close();
  const log = createLog('test', 'silent');
  gateway.limits = openLimits(log, openCounters(log, times));
  gateway.limits.use(gateway.snapshot.limits);
  return opened;
}

/** How long the limits' store is waited for from now on: 50 ms, as the product waits, or longer. */
export function waitForStore(counters: Counters, patience_ms: number): void {
  const { store } = counters as unknown as { store: { client: { patience_ms: number } } };
  store.client.patience_ms = patience_ms;
}

/** An organization's events about limits, once the gateway has sent them. */
export async function limitEvents({ api }: World, gateway: TestGateway, org_id: string) {
  await until(() => gateway.gateway.events.count() === 0);
  return many<{ type: string; action: string | null; payload: Record<string, unknown> }>(
    api.db,
    `select e.type, e.action, e.payload from events e
     where e.org_id = :org_id and e.type like 'rate_limit.%' order by e.id`,
    { org_id },
  );
}
