import { setTimeout as sleep } from 'node:timers/promises';
import { many } from '../../domain/sql';
import { openCounters } from '../../gateway/limits/counters';
import { openLimits } from '../../gateway/limits/engine';
import { createLog } from '../../runtime/log';
import type { TestGateway, World } from './gateway';
import { until } from './until';

type More = Parameters<World['openGateway']>[0];

/** A gateway whose minutes begin a second before it opens, so that no test crosses their edge. */
export async function openAtMinute(world: World, more: More): Promise<TestGateway> {
  const ahead_ms = (Date.now() % 60_000) - 1_000;
  return openByClock(world, more, () => Date.now() - ahead_ms);
}

/** Waits for the next minute if this one ends soon, for a gateway whose clock cannot be given. */
export async function awayFromMinuteEnd(): Promise<void> {
  const left_ms = 60_000 - (Date.now() % 60_000);
  if (left_ms < 10_000) await sleep(left_ms);
}

/** A gateway that counts by the given clock. */
export async function openByClock(
  world: World,
  more: More,
  clock: () => number,
): Promise<TestGateway> {
  const opened = await world.openGateway(more);
  const { gateway } = opened;
  await gateway.limits.close();
  const log = createLog('test', 'silent');
  gateway.limits = openLimits(log, openCounters(log, { clock }));
  gateway.limits.use(gateway.snapshot.limits);
  return opened;
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
