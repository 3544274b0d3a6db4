import { z } from 'zod';
import { AppError } from '../../domain/errors';
import * as walletSettings from '../../domain/ledger/wallet-settings';
import { fromNanos } from '../../domain/money';
import * as paymentConfig from '../../domain/payments/config';
import { currenciesOf, type ProviderName, providerNames } from '../../domain/payments/currencies';
import * as paymentSettings from '../../domain/payments/settings';
import { may } from '../../domain/people/rights';
import { isLoopback } from '../../domain/texts';
import { actingOrg, member, permission, platformAdmin } from '../http/access';
import { flag, id, positiveAmount } from '../http/fields';
import { type Ctx, route } from '../http/route';

const provider = z.enum(providerNames).describe('The payment provider.');
const scopes = z.enum(['user', 'team', 'organization']);

/** An address of a server alone: over https, or over http if it is on this machine. */
const origin = z
  .string()
  .max(300)
  .superRefine((text, check) => {
    const refuse = (message: string) => check.addIssue({ code: 'custom', message });
    if (text.includes('*'))
      return refuse(
        'may hold no wildcard: name each origin by itself, such as https://example.com',
      );
    if (!URL.canParse(text)) return refuse('must be an origin such as https://example.com');
    const url = new URL(text);
    const isPlain = url.protocol === 'http:' && isLoopback(url.hostname);
    if (url.protocol !== 'https:' && !isPlain)
      return refuse('must begin with https://; http:// only on this machine');
    if (url.origin === text) return undefined;
    return refuse(`must be an origin alone, without path or user name, such as ${url.origin}`);
  });

const settingsQuery = z.strictObject({ org_id: id.optional() });
const settingsBody = z.strictObject({
  org_id: id.optional(),
  allowed_topup_amounts: z.array(positiveAmount('allowed_topup_amounts')).max(20).optional(),
  min_topup_amount: positiveAmount('min_topup_amount').optional(),
  max_topup_amount: positiveAmount('max_topup_amount').optional(),
  topup_target_scopes: z.array(scopes).min(1).optional(),
  return_origins: z.array(origin).max(20).optional(),
});
const settingsAnswer = z.strictObject({
  currency: id,
  wallet_user_topup_enabled: z.boolean(),
  active_provider: provider.nullable(),
  available_providers: z.array(provider),
  payment_provider_configured: z.boolean(),
  currency_supported_by_active_provider: z.boolean(),
  allowed_topup_amounts: z.array(z.number()),
  min_topup_amount: z.number(),
  max_topup_amount: z.number(),
  topup_target_scopes: z.array(scopes),
  return_origins: z.array(z.string()),
});

// A value as the provider shows it. An example's dots are none, and a key of another kind would be
// found out by a buyer.
const credential = z
  .string()
  .max(1_000)
  .regex(
    /^[\x21-\x7e]{6,}$/,
    'must be at least 6 letters, digits and signs of ASCII without blanks, as the provider shows it',
  )
  .refine(
    (given) => !given.endsWith('...'),
    'is an example; enter the value that the provider shows',
  );

function providerBody<Fields extends z.ZodRawShape>(name: ProviderName, fields: Fields) {
  const currency = z
    .string()
    .refine(
      (code) => currenciesOf(name).includes(code),
      `must be a currency that ${name} takes, such as USD`,
    );
  return z.strictObject({
    enabled: flag.optional(),
    supported_currencies: z.array(currency).min(1).optional(),
    base_url: origin.optional(),
    ...fields,
  });
}

const configBody = z.strictObject({
  active_provider: provider.nullable().optional(),
  payment_provider_a: providerBody('payment_provider_a', {
    client_id: credential.optional(),
    client_secret: credential.optional(),
    webhook_id: credential.optional(),
  }).optional(),
  payment_provider_b: providerBody('payment_provider_b', {
    secret_key: credential
      .regex(/^(sk|rk)_/, 'must be a secret key, sk_..., or a restricted one, rk_...')
      .optional(),
    webhook_secret: credential
      .regex(/^whsec_/, "must be the webhook endpoint's signing secret, whsec_...")
      .optional(),
  }).optional(),
});
const providerAnswer = z.strictObject({
  enabled: z.boolean(),
  supported_currencies: z.array(id),
  base_url: z.url(),
  configured: z.boolean(),
  previous_webhook_secret_until: z.iso.datetime().nullable(),
});
const configAnswer = z.strictObject({
  active_provider: provider.nullable(),
  payment_provider_a: providerAnswer,
  payment_provider_b: providerAnswer,
});

const optionsAnswer = settingsAnswer
  .omit({ wallet_user_topup_enabled: true, active_provider: true, available_providers: true })
  .extend({ may_top_up: z.boolean().describe('Whether the organization lets whoever asks pay.') });

const billing = permission('org:billing');

export const paymentSettingsRoutes = [
  route({
    method: 'get',
    path: '/v1/payments/settings',
    access: billing,
    input: settingsQuery,
    handler: getSettings,
    summary: "The organization's rules for top-ups, and whether it can be paid at all.",
    answer: settingsAnswer,
  }),
  route({
    method: 'put',
    path: '/v1/payments/settings',
    access: billing,
    input: settingsBody,
    handler: putSettings,
    is_recorded: true,
    summary: "Change the given rules for the organization's top-ups.",
    answer: settingsAnswer,
  }),
  route({
    method: 'get',
    path: '/v1/payments/options',
    access: member,
    input: settingsQuery,
    handler: getOptions,
    summary: 'Whether you may top up here, how much, which wallets, and where you return to.',
    answer: optionsAnswer,
  }),
  route({
    method: 'get',
    path: '/v1/admin/payments/config',
    access: platformAdmin,
    input: z.strictObject({}),
    handler: getConfig,
    summary: 'The payment providers of the platform. Secrets are never answered.',
    answer: configAnswer,
  }),
  route({
    method: 'put',
    path: '/v1/admin/payments/config',
    access: platformAdmin,
    input: configBody,
    handler: putConfig,
    is_recorded: true,
    summary: 'Change what is given of the payment providers, and choose the active one.',
    answer: configAnswer,
  }),
];

async function getSettings({ db, principal }: Ctx, { org_id }: z.infer<typeof settingsQuery>) {
  return settingsOf({ db }, await actingOrg(db, principal, org_id));
}

/** What of the settings a buyer needs: a member may buy, and does not see how it is set up. */
async function getOptions({ db, principal }: Ctx, { org_id }: z.infer<typeof settingsQuery>) {
  const { wallet_user_topup_enabled, active_provider, available_providers, ...options } =
    await settingsOf({ db }, await actingOrg(db, principal, org_id));
  const bills = may(principal, 'org:billing');
  return { ...options, may_top_up: wallet_user_topup_enabled || bills };
}

async function putSettings(
  { db, principal }: Ctx,
  { org_id: named, ...body }: z.infer<typeof settingsBody>,
) {
  const org_id = await actingOrg(db, principal, named);
  const { allowed_topup_amounts, topup_target_scopes, return_origins } = body;
  await paymentSettings.putOrgSettings(db, org_id, {
    allowed_topup_amounts_nanos: once(allowed_topup_amounts),
    min_topup_amount_nanos: body.min_topup_amount,
    max_topup_amount_nanos: body.max_topup_amount,
    topup_target_scopes: once(topup_target_scopes),
    return_origins: once(return_origins),
  });
  return settingsOf({ db }, org_id);
}

/** A list with each of its values once. */
function once<Value>(values: Value[] | undefined): Value[] | undefined {
  return values && [...new Set(values)];
}

async function settingsOf({ db }: Pick<Ctx, 'db'>, org_id: string) {
  const { currency, wallet_user_topup_enabled } = await walletSettings.get(db, org_id);
  const rules = await paymentSettings.getOrgSettings(db, org_id);
  const config = await paymentConfig.getConfig(db);
  const usable = paymentConfig.usableProviders(config);
  const active = usable.find((name) => name === config.active_provider);
  const { allowed_topup_amounts_nanos, ...settings } =
    active === undefined ? rules : paymentSettings.payable(rules, active, currency);
  return {
    currency,
    wallet_user_topup_enabled,
    active_provider: config.active_provider,
    available_providers: usable,
    payment_provider_configured: active !== undefined,
    currency_supported_by_active_provider:
      active !== undefined && config[active].supported_currencies.includes(currency),
    ...settings,
    allowed_topup_amounts: allowed_topup_amounts_nanos.map(fromNanos),
  };
}

function getConfig({ db }: Ctx) {
  return paymentConfig.getConfig(db);
}

async function putConfig(
  { db, secrets, log, principal, request_id, payment_hosts }: Ctx,
  body: z.infer<typeof configBody>,
) {
  for (const name of providerNames) requireHost(name, body[name]?.base_url, payment_hosts);
  const { active_provider, payment_provider_a: a, payment_provider_b: b } = body;
  const config = await paymentConfig.putConfig(db, secrets, {
    active_provider,
    payment_provider_a: a && changeOf(a, a.webhook_id, ['client_id', 'client_secret']),
    payment_provider_b: b && changeOf(b, b.webhook_secret, ['secret_key']),
  });
  // The names of the fields, never their values.
  const fields = [...named('payment_provider_a', a), ...named('payment_provider_b', b)];
  const what = { fields, active_provider: config.active_provider, by: principal.id, request_id };
  log.info(what, 'the payment config has changed');
  return config;
}

/** A provider's credentials go to its own hosts, and to those that this process lists. */
function requireHost(
  name: ProviderName,
  base_url: string | undefined,
  listed: readonly string[],
): void {
  if (base_url === undefined || paymentConfig.mayReach(name, base_url, listed)) return;
  throw new AppError(
    'invalid_field',
    `${base_url} is no host of ${name}. List it in PAYMENT_HOSTS of every API and worker first.`,
    { param: `${name}.base_url` },
  );
}

type ProviderBody = paymentConfig.ProviderChange & Record<string, unknown>;

function changeOf(
  body: ProviderBody,
  webhook_secret: string | undefined,
  credential_names: readonly string[],
): paymentConfig.ProviderChange {
  const { enabled, supported_currencies, base_url } = body;
  const given = credential_names.filter((name) => body[name] !== undefined);
  return {
    enabled,
    supported_currencies: once(supported_currencies),
    base_url,
    credentials: Object.fromEntries(given.map((name) => [name, String(body[name])])),
    webhook_secret,
  };
}

function named(name: ProviderName, body: object | undefined): string[] {
  return Object.keys(body ?? {}).map((field) => `${name}.${field}`);
}
