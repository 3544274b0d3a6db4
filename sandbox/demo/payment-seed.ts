import { type ConfigChange, getConfig, putConfig } from '../../domain/payments/config';
import { type ProviderName, providerNames } from '../../domain/payments/currencies';
import { getOrgSettings, putOrgSettings } from '../../domain/payments/settings';
import type { Secrets } from '../../domain/secrets';
import type { Db } from '../../domain/sql';
import { sandboxAccessA } from '../payments/a/provider';
import { sandboxAccessB } from '../payments/b/provider';

/** The origin of a console at its usual port; buyers may return there from the first start. */
const CONSOLE_ORIGIN = 'http://127.0.0.1:3000';
/** Origins of earlier starts with PORTS=free, see ports.ts. */
const chosenFreely = /^http:\/\/127\.0\.0\.1:(2\d|3[01])\d{3}$/;
const onThisMachine = /^http:\/\/127\.0\.0\.1:/;

export interface PaymentPlaces {
  urls: Record<ProviderName, string>;
  /** The address of the buyer's page. */
  shop_url: string;
}

/**
 * Sets both sandbox providers up at their addresses of this start. A provider that was set up
 * elsewhere is left alone.
 */
export async function seedPayments(
  db: Db,
  secrets: Secrets,
  org_id: string,
  { urls, shop_url, console_url = CONSOLE_ORIGIN }: PaymentPlaces & { console_url?: string },
): Promise<void> {
  const config = await getConfig(db);
  const isOurs = (name: ProviderName) =>
    !config[name].configured || onThisMachine.test(config[name].base_url);
  const change: ConfigChange = {};
  for (const name of providerNames.filter(isOurs))
    change[name] = { enabled: true, base_url: urls[name], ...access[name] };
  if (config.active_provider === null && change.payment_provider_a)
    change.active_provider = 'payment_provider_a';
  await putConfig(db, secrets, change);
  const { return_origins } = await getOrgSettings(db, org_id);
  const kept = return_origins.filter((origin) => !chosenFreely.test(origin));
  const wanted = [...new Set([CONSOLE_ORIGIN, console_url, shop_url, ...kept])];
  await putOrgSettings(db, org_id, { return_origins: wanted });
}

const { webhook_id, ...credentials } = sandboxAccessA;
const { webhook_secret, ...keys } = sandboxAccessB;

const access = {
  payment_provider_a: { credentials, webhook_secret: webhook_id },
  payment_provider_b: { credentials: keys, webhook_secret },
};
