import type { Gateway } from './call/call';
import { providerOf, servedModels } from './config/targets';
import { priceFor } from './control-plane/prices';
import type { Shape } from './providers/kind';

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

const shapes: ReadonlySet<Shape> = new Set(['openai', 'anthropic', 'gemini', 'converse']);

/** Served models that would be refused for want of a price; undefined while nobody knows prices. */
export async function missingPrices({
  snapshot,
  control_plane,
}: Pick<Gateway, 'snapshot' | 'control_plane'>): Promise<string[] | undefined> {
  const prices = await control_plane.prices();
  if (prices === undefined) return undefined;
  const named = snapshot.settings.providers.targets.flatMap((row) =>
    servedModels(row).map(({ priced }) => ({ provider: providerOf(row), model: priced })),
  );
  // What servers list themselves, too.
  const listed = snapshot.providers.models(shapes, null).flatMap(({ priced }) => priced);
  const unpriced = [...named, ...listed].filter((way) => priceFor(prices, way) === undefined);
  return [...new Set(unpriced.map(({ provider, model }) => `${provider}/${model}`))];
}

/** Warns of them. */
export async function logMissingPrices(gateway: Gateway): Promise<void> {
  const models = (await missingPrices(gateway)) ?? [];
  if (models.length === 0) return;
  const words =
    'models have no price, and are refused: npm run admin -- prices import --targets <this configuration>';
  gateway.log.warn({ models }, words);
}
