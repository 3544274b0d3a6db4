import type { Funded } from '../call/call';
import type { Cost } from '../call/cost';
import type { Measured } from '../families/reader';
import { cost_headers, costHeaders } from '../stages/cost';

/**
 * Settles a call that asks for its cost, at what was measured of its answer; undefined if the cost
 * is not known in time.
 */
export type Charge = (measured: Measured) => Promise<Cost | undefined>;

/** Settles the call at its outcome, and waits for the cost. */
export async function charged(call: Funded): Promise<Cost | undefined> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<undefined>((resolve) => {
    timer = setTimeout(() => resolve(undefined), call.gateway.cost_wait_ms);
  });
  const cost = await Promise.race([call.settle(), late]);
  clearTimeout(timer);
  if (cost !== undefined) call.cost = cost;
  return cost;
}

/** The header that announces trailers, for an answer whose cost is known behind its head only. */
export function announced({ ctx, asks_cost }: Funded): Record<string, string> {
  // Before HTTP/1.1 there are none, and a frame of a socket has no head at all.
  const may_trail = ctx.given === undefined && ctx.req.httpVersion === '1.1';
  return asks_cost && may_trail ? { trailer: cost_headers.join(', ') } : {};
}

/** Tells the cost behind an answer whose head has announced it. */
export async function trail(call: Funded, charge: Charge | undefined, measured: Measured) {
  if (charge === undefined || call.client_is_gone) return undefined;
  const cost = await charge(measured);
  const { ctx } = call;
  if (!call.client_is_gone && ctx.given === undefined) ctx.res.addTrailers(costHeaders(cost));
  return cost;
}

/** Says behind an answer whose head has announced it that its cost is not known yet. */
export function trailPending({ ctx, client_is_gone }: Funded): void {
  if (!client_is_gone && ctx.given === undefined) ctx.res.addTrailers(costHeaders(undefined));
}
