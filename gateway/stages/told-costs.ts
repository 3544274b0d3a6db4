import type { Funded } from '../call/call';
import { UNSOUND } from '../families/told-cost';
import type { Candidate } from '../upstreams/target';

// Figures that the log has been told of, by the circuit: each call by an own key has a target of
// its own.
const told = new WeakSet<object>();

/**
 * Notes what the provider that served says that the call cost: it is kept beside what is charged,
 * and decides nothing. A figure that is none is dropped and counted.
 */
export function noteCost(call: Funded, { target }: Candidate, cost_told: string | undefined): void {
  call.provider_cost_usd = cost_told === UNSOUND ? undefined : cost_told;
  if (cost_told !== UNSOUND) return;
  const { unsound_costs, log } = call.gateway;
  const { provider, breaker, id } = target;
  unsound_costs.set(provider, (unsound_costs.get(provider) ?? 0) + 1);
  if (told.has(breaker)) return;
  told.add(breaker);
  log.warn(
    { target: id },
    'a provider tells a cost that is no amount of a call, and it is dropped',
  );
}
