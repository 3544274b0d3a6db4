import type { Gateway } from './call/call';
import { retire, type Snapshot } from './call/snapshot';
import { encodingOf } from './counting/tokenizer';

/**
 * Puts a snapshot in the place of the present one, for the calls that begin from now on, and does
 * all that follows from a new configuration. Start and reload go the same way.
 */
export async function adopt(gateway: Gateway, snapshot: Snapshot): Promise<void> {
  const { snapshot: before, tokenizer, limits, telemetry } = gateway;
  const { providers, observability } = snapshot.settings;
  // The first request need not wait for its encoding.
  for (const { models } of providers.targets) {
    for (const model of models) tokenizer.warm(encodingOf(model));
  }
  limits.use(snapshot.limits);
  gateway.snapshot = snapshot;
  if (before !== snapshot) retire(before);
  await telemetry.use(observability.otlp);
}
