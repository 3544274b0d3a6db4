import { openLimits } from '../../gateway/limits';
import { createLog } from '../../log';
import type { TestGateway, World } from './gateway';

type More = Parameters<World['openGateway']>[0];

/** A gateway whose minutes begin a second before it opens, so that no test crosses their edge. */
export async function openAtMinute(world: World, more: More): Promise<TestGateway> {
  const opened = await world.openGateway(more);
  const { gateway } = opened;
  const ahead_ms = (Date.now() % 60_000) - 1_000;
  await gateway.limits.close();
  gateway.limits = openLimits(createLog('test', 'silent'), () => Date.now() - ahead_ms);
  gateway.limits.use(gateway.running.limits);
  return opened;
}
