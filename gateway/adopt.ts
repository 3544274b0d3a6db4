import type { Gateway } from './call/call';
import { closeSnapshot, retire, type Snapshot } from './call/snapshot';
import { servedModels } from './config/targets';
import { encodingOf } from './counting/tokenizer';
import { families } from './families/table';
import { isCovered } from './stages/policies';
import { logMissingPrices } from './warnings';

/**
 * Puts a snapshot in the place of the present one, for the calls that begin from now on, and does
 * all that follows from a new configuration. Start and reload go the same way. If it throws, the
 * present snapshot stays, and the other one is closed.
 */
export async function adopt(gateway: Gateway, snapshot: Snapshot): Promise<void> {
  const { providers, observability } = snapshot.settings;
  const { tokenizer, limits, telemetry } = gateway;
  // The first request need not wait for its encoding.
  for (const { priced } of providers.targets.flatMap(servedModels)) {
    tokenizer.warm(encodingOf(priced));
  }
  try {
    await telemetry.load(observability.otlp);
    telemetry.use(observability.otlp);
  } catch (error) {
    await closeSnapshot(snapshot);
    throw error;
  }
  const { providers: previous } = gateway.snapshot;
  await snapshot.providers.discover(
    gateway.log,
    gateway.snapshot === snapshot ? undefined : previous,
  );
  logUncovered(gateway, snapshot);
  const { stored_ids } = snapshot.settings;
  if (stored_ids === 'pass')
    gateway.log.warn({ stored_ids }, 'callers may name what others have stored at providers');
  limits.use(snapshot.limits);
  const before = gateway.snapshot;
  gateway.snapshot = snapshot;
  if (before === snapshot) return;
  retire(before);
  // The start does so once the control plane answers.
  void logMissingPrices(gateway).catch((error) => gateway.log.warn({ err: error }, 'no prices'));
}

/** Logs which routes no policy looks at although there is a chain. */
function logUncovered({ log }: Gateway, { policies }: Snapshot): void {
  if (policies.chain.length === 0) return;
  const uncovered = families.filter((family) => !isCovered(policies, family));
  const routes = [...new Set(uncovered.map(({ name, policy_route }) => policy_route ?? name))];
  if (policies.refuses_uncovered)
    log.info({ routes }, 'routes that no policy looks at are refused');
  else if (routes.length > 0) log.warn({ routes }, 'no policy looks at the calls of these routes');
}
