import { AppError } from '../../domain/errors';
import { amountOf } from '../../domain/ledger/price-lists';
import type { Routed } from '../call/call';
import { priceFor } from '../control-plane/prices';
import type { Demand } from '../families/demand';

/**
 * Refuses what a model that may serve has no price for. Without a price list nothing is refused
 * here: then the reserve finds no control plane either.
 */
export async function checkPriced(call: Routed, { needs }: Demand): Promise<void> {
  const prices = await call.gateway.control_plane.prices();
  if (prices === undefined) return;
  for (const { provider, model } of call.prices) {
    const price = priceFor(prices, { provider, model });
    if (price === undefined || price.free) continue;
    const lacking = needs.find(
      ({ amount, providers }) =>
        amountOf(price, amount) === null && (providers?.includes(provider) ?? true),
    );
    if (lacking !== undefined) throw unpriced(lacking, model);
  }
}

function unpriced({ param, amount }: Demand['needs'][number], model: string): AppError {
  return new AppError(
    'invalid_field',
    `The price of the model "${model}" does not say what "${param}" costs here. A platform admin can set it: ${amount} of PUT /v1/admin/model-pricing/{id}.`,
    { param },
  );
}
