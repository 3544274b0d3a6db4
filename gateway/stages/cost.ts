import { AppError } from '../../domain/errors';
import type { PriceLine } from '../../domain/ledger/price-sheet';
import { decimalText, NANOS_PER_UNIT } from '../../domain/money';
import type { Funded, Identified } from '../call/call';
import type { Cost } from '../call/cost';
import { UNSOUND } from '../families/told-cost';
import type { Candidate } from '../upstreams/target';

const ASK_HEADER = 'x-svc-include-cost';
/** The cost, or that it is not known yet: as headers, or as trailers of what was begun before. */
export const cost_headers = ['x-svc-cost', 'x-svc-cost-currency', 'x-svc-cost-status'] as const;

/**
 * True if the caller is to be told what the call costs: by its header, else by its key's setting.
 * Throws 422 for a header that says neither.
 */
export function asksCost({ ctx, identity }: Pick<Identified, 'ctx' | 'identity'>): boolean {
  const given = ctx.req.headers[ASK_HEADER];
  if (given === undefined) return identity.include_cost === true;
  const said = String(given).trim().toLowerCase();
  if (said === 'true' || said === 'false') return said === 'true';
  throw new AppError(
    'invalid_field',
    `${ASK_HEADER} is true or false: true adds the cost to the answer's usage, false leaves it out.`,
    { param: ASK_HEADER },
  );
}

/** What a settlement came to, in the words of an answer: to the nano, if its lines are known. */
export function costOf(
  { actual_cost, price_lines }: { actual_cost: number; price_lines?: PriceLine[] | undefined },
  currency: string,
): Cost {
  const nanos = Math.round(actual_cost * Number(NANOS_PER_UNIT));
  // From there on doubles are more than a nano apart, and the lines add up to the cost.
  const is_exact = Math.abs(actual_cost) < 2 ** 23 || price_lines === undefined;
  const sum = is_exact ? BigInt(nanos) : nanosOf(price_lines);
  return { amount: decimalText(sum), currency, lines: price_lines };
}

/** The sum of amounts that have more decimals than it has. */
function nanosOf(lines: readonly PriceLine[]): bigint {
  const places = Math.max(9, ...lines.map(({ amount }) => amount.split('.')[1]?.length ?? 0));
  const sum = lines.reduce((so_far, { amount }) => {
    const [units = '', decimals = ''] = amount.split('.');
    return so_far + BigInt(units + decimals.padEnd(places, '0'));
  }, 0n);
  return sum / 10n ** BigInt(places - 9);
}

/** The headers, or trailers, that tell a cost; undefined: it is not known yet. */
export function costHeaders(cost: Cost | undefined): Record<string, string> {
  if (cost === undefined) return { 'x-svc-cost-status': 'pending' };
  return { 'x-svc-cost': cost.amount, 'x-svc-cost-currency': cost.currency };
}

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
