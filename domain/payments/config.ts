import { AppError } from '../errors';
import { owner_of } from '../sealed';
import type { Secrets } from '../secrets';
import { type Db, many, maybe } from '../sql';
import { currenciesOf, type ProviderName, providerNames } from './currencies';

/** A provider as platform admins see it. */
interface ProviderConfig {
  enabled: boolean;
  supported_currencies: string[];
  base_url: string;
  /** Its credentials and its webhook secret are there. They are never answered. */
  configured: boolean;
  /** Until when the webhook secret before this one is good; null if none was replaced lately. */
  previous_webhook_secret_until: Date | null;
}

export type PlatformConfig = Record<ProviderName, ProviderConfig> & {
  active_provider: ProviderName | null;
};

export interface ProviderChange {
  enabled?: boolean | undefined;
  supported_currencies?: string[] | undefined;
  base_url?: string | undefined;
  /** Added to those that are there, by name. */
  credentials?: Record<string, string> | undefined;
  webhook_secret?: string | undefined;
}

export type ConfigChange = { [Name in ProviderName]?: ProviderChange | undefined } & {
  active_provider?: ProviderName | null | undefined;
};

/** How a provider is reached: the platform config with its secrets in the clear. */
export interface ProviderAccess {
  base_url: string;
  credentials: Readonly<Record<string, string>>;
  /**
   * Webhook secrets that are good now: the present one, and the one it replaced for 72 h. At
   * provider A these are ids of webhooks. None: no webhook is believed.
   */
  webhook_secrets: readonly string[];
}

/** How long a replaced webhook secret is good: the provider may sign with either meanwhile. */
const ROTATION_HOURS = 72;

/** Each provider's live address, unless the config names another one. */
const liveUrls: Record<ProviderName, string> = {
  payment_provider_a: 'https://api-m.paypal.com',
  payment_provider_b: 'https://api.stripe.com',
};

/** The hosts of each provider, live and for trials. Others count only if the process lists them. */
const knownHosts: Record<ProviderName, readonly string[]> = {
  payment_provider_a: ['api-m.paypal.com', 'api-m.sandbox.paypal.com'],
  payment_provider_b: ['api.stripe.com'],
};

/** True if a provider's credentials may be sent there: a host of its own, or a listed one. */
export function mayReach(name: ProviderName, base_url: string, listed: readonly string[]): boolean {
  const host = new URL(base_url).hostname;
  return knownHosts[name].includes(host) || listed.includes(host);
}

const neededCredentials: Record<ProviderName, readonly string[]> = {
  payment_provider_a: ['client_id', 'client_secret'],
  payment_provider_b: ['secret_key'],
};

interface ProviderRow {
  name: ProviderName;
  enabled: boolean;
  supported_currencies: string[];
  base_url: string;
  credentials: Record<string, string>;
  webhook_secret: string | null;
  previous_webhook_secret: string | null;
  previous_webhook_secret_until: Date | null;
}

const rows = `
  select p.name, p.enabled, p.supported_currencies, p.base_url, p.credentials, p.webhook_secret,
    case when p.previous_webhook_secret_until > clock_timestamp() then p.previous_webhook_secret end as previous_webhook_secret,
    case when p.previous_webhook_secret_until > clock_timestamp() then p.previous_webhook_secret_until end as previous_webhook_secret_until
  from payment_providers p`;

async function rowOf(db: Db, name: ProviderName): Promise<ProviderRow> {
  const row = await maybe<ProviderRow>(db, `${rows} where p.name = :name`, { name });
  return row ?? blank(name);
}

/** A provider that was never set up: disabled, and it has nothing. */
function blank(name: ProviderName): ProviderRow {
  return {
    name,
    enabled: false,
    base_url: liveUrls[name],
    supported_currencies: [...currenciesOf(name)],
    credentials: {},
    webhook_secret: null,
    previous_webhook_secret: null,
    previous_webhook_secret_until: null,
  };
}

function isConfigured({ name, credentials, webhook_secret }: ProviderRow): boolean {
  return webhook_secret !== null && neededCredentials[name].every((needed) => credentials[needed]);
}

/** The platform's config as admins see it: whether secrets are set, never their values. */
export async function getConfig(db: Db): Promise<PlatformConfig> {
  const found = await many<ProviderRow & { active_provider: ProviderName | null }>(
    db,
    `select r.*, c.active_provider from payment_config c full join (${rows}) as r on true`,
  );
  const shown = (name: ProviderName): ProviderConfig => {
    const row = found.find((one) => one.name === name) ?? blank(name);
    const { enabled, supported_currencies, base_url, previous_webhook_secret_until } = row;
    const configured = isConfigured(row);
    return { enabled, supported_currencies, base_url, configured, previous_webhook_secret_until };
  };
  return {
    active_provider: found[0]?.active_provider ?? null,
    payment_provider_a: shown('payment_provider_a'),
    payment_provider_b: shown('payment_provider_b'),
  };
}

/** Providers that can take new sessions: enabled, and with all they need. */
export function usableProviders(config: PlatformConfig): ProviderName[] {
  return providerNames.filter((name) => config[name].enabled && config[name].configured);
}

/**
 * The provider of new sessions; undefined if none is chosen, or the chosen one cannot take them.
 */
export async function activeProvider(db: Db): Promise<ProviderName | undefined> {
  const config = await getConfig(db);
  return usableProviders(config).find((name) => name === config.active_provider);
}

/**
 * Changes the given members of the platform's config. An active provider must be enabled and
 * configured by then.
 */
export function putConfig(db: Db, secrets: Secrets, given: ConfigChange): Promise<PlatformConfig> {
  return db.transaction(async (trx) => {
    // Two admins at once: the second goes on from the first one's change.
    await many(trx, 'lock table payment_config in exclusive mode');
    for (const name of providerNames) {
      const change = given[name];
      if (change !== undefined) await putProvider(trx, secrets, { ...change, name });
    }
    if (given.active_provider !== undefined) await choose(trx, given.active_provider);
    return getConfig(trx);
  });
}

async function choose(trx: Db, active_provider: ProviderName | null): Promise<void> {
  const config = await getConfig(trx);
  if (active_provider !== null && !usableProviders(config).includes(active_provider)) {
    const missing = config[active_provider].configured
      ? 'is not enabled'
      : `has not all of ${neededCredentials[active_provider].join(', ')} and its webhook secret yet`;
    throw new AppError('invalid_field', `${active_provider} ${missing}, so it cannot be active.`, {
      param: 'active_provider',
    });
  }
  await trx('payment_config')
    .insert({ is_only: true, active_provider, updated_at: trx.fn.now() })
    .onConflict('is_only')
    .merge();
}

async function putProvider(
  trx: Db,
  secrets: Secrets,
  { name, credentials = {}, webhook_secret, ...plain }: ProviderChange & { name: ProviderName },
): Promise<void> {
  const old = await rowOf(trx, name);
  requireOwnCredentials(old, { ...plain, credentials, webhook_secret });
  const sealed = await Promise.all(
    Object.entries(credentials).map(async ([field, value]) => [
      field,
      await secrets.seal(value, owner_of.payment_provider(name, field)),
    ]),
  );
  const given = Object.entries(plain).filter(([, value]) => value !== undefined);
  await trx('payment_providers')
    .insert({
      ...old,
      ...Object.fromEntries(given),
      ...(webhook_secret === undefined ? {} : await rotated(trx, secrets, old, webhook_secret)),
      credentials: JSON.stringify({ ...old.credentials, ...Object.fromEntries(sealed) }),
      updated_at: trx.fn.now(),
    })
    .onConflict('name')
    .merge();
}

/**
 * Refuses to send stored credentials to another address: whoever may change the address need not
 * know them. They come in the same request, or the address stays.
 */
function requireOwnCredentials(old: ProviderRow, change: ProviderChange): void {
  const { base_url, credentials = {}, webhook_secret } = change;
  if (base_url === undefined || new URL(base_url).origin === new URL(old.base_url).origin) return;
  if (Object.keys(old.credentials).length === 0 && old.webhook_secret === null) return;
  const needed = neededCredentials[old.name];
  if (webhook_secret !== undefined && needed.every((field) => credentials[field])) return;
  throw new AppError(
    'invalid_field',
    `The stored credentials of ${old.name} are not sent to another address: give ` +
      `${needed.join(', ')} and the webhook's secret in this request too.`,
    { param: `${old.name}.base_url` },
  );
}

/**
 * The new webhook secret, and the old one for the time of the rotation. The same secret given again
 * changes nothing.
 */
async function rotated(trx: Db, secrets: Secrets, old: ProviderRow, webhook_secret: string) {
  const owner = owner_of.payment_provider(old.name, 'webhook_secret');
  // A secret sealed under a lost key is useless, and must not keep an admin from entering it again.
  const present = old.webhook_secret
    ? await secrets.open(old.webhook_secret, owner).catch(() => undefined)
    : undefined;
  if (present === webhook_secret) return {};
  const hours = trx.raw("clock_timestamp() + ? * interval '1 hour'", [ROTATION_HOURS]);
  return {
    webhook_secret: await secrets.seal(webhook_secret, owner),
    previous_webhook_secret: present === undefined ? null : old.webhook_secret,
    previous_webhook_secret_until: present === undefined ? null : hours,
  };
}

/**
 * A provider's access, with its secrets in the clear: for adapters only. Throws if they were sealed
 * under another key.
 */
export async function accessOf(
  db: Db,
  secrets: Secrets,
  name: ProviderName,
): Promise<ProviderAccess> {
  const { base_url, credentials, ...row } = await rowOf(db, name);
  const opened = await Promise.all(
    Object.entries(credentials).map(async ([field, sealed]) => [
      field,
      await secrets.open(sealed, owner_of.payment_provider(name, field)),
    ]),
  );
  const webhook_secrets = await Promise.all(
    [row.webhook_secret, row.previous_webhook_secret]
      .filter((sealed) => sealed !== null)
      .map((sealed) => secrets.open(sealed, owner_of.payment_provider(name, 'webhook_secret'))),
  );
  return { base_url, credentials: Object.fromEntries(opened), webhook_secrets };
}
