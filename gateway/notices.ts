import type { Gateway } from './call/call';
import { providerOf, servedModels } from './config/targets';
import { priceFor } from './control-plane/prices';

/** Says whose word on a client's address is taken, if addresses are counted. */
export function logTrust({ snapshot, log }: Gateway): void {
  const { rate_limits, user_rate_limit } = snapshot.settings;
  const { enabled, header, trusted_proxies } = rate_limits.ip;
  if (!enabled && !user_rate_limit.fallback_to_ip) return;
  if (trusted_proxies.length === 0)
    log.info('no proxy is believed: an address is that of its connection');
  else
    log.info(
      { header, trusted_proxies },
      'these proxies are believed about addresses, in a header',
    );
}

/** Warns of models that are served and would be refused, as they have no price. */
export async function logMissingPrices({ snapshot, control_plane, log }: Gateway): Promise<void> {
  const prices = await control_plane.prices();
  if (prices === undefined) return;
  const unpriced = snapshot.settings.providers.targets.flatMap((row) => {
    const provider = providerOf(row);
    return servedModels(row)
      .filter(({ priced }) => priceFor(prices, { provider, model: priced }) === undefined)
      .map(({ priced }) => `${provider}/${priced}`);
  });
  if (unpriced.length === 0) return;
  const models = [...new Set(unpriced)];
  log.warn({ models }, 'models have no price, and are refused: POST /v1/admin/model-pricing');
}
