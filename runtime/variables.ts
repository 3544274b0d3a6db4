import { z } from 'zod';
import { DEFAULT_GROUP, group_pattern, group_rule } from '../domain/gateways/groups';
import { isSecretsKey, secretsKeysIn } from '../domain/secrets';
import { isLoopback } from '../domain/texts';
// Every process reads its configuration, so every schema of every process uses these messages.
import './field-messages';
import { isNetwork } from './networks';

// What each process reads of its environment.

const port = z.coerce.number().int().min(0).max(65_535);
const chosen_port = z.coerce.number().int().min(1).max(65_535).optional();
// An address of this machine; all of them if none is named.
const host = z.string().min(1).optional();
// `npm start` asks its parts on loopback, and opens them to others only on demand: its keys and
// data are a demo's.
const product_host = z.enum(['127.0.0.1', '0.0.0.0']).default('127.0.0.1');
const urls = z
  .string()
  .transform((text) => text.split(',').map((url) => url.trim()))
  .pipe(z.array(z.url()).min(1));
const public_url = z.url({ protocol: /^https?$/ }).transform((text) => text.replace(/\/+$/, ''));
// Texts of a list, separated by commas.
const list = z.string().transform((text) =>
  text
    .split(',')
    .map((part) => part.trim())
    .filter((part) => part !== ''),
);
const isOrigin = (text: string) => URL.canParse(text) && new URL(text).origin === text;
const isSafeUrl = (text: string) => text.startsWith('https:') || isLoopback(new URL(text).hostname);
const console_origin = z
  .string()
  .refine(isOrigin, 'must be an origin such as https://console.example.com')
  .refine(
    (text) => !isOrigin(text) || isSafeUrl(text),
    'must begin with https://; http:// only on this machine',
  );
const origins = list.refine((all) => all.every(isOrigin), {
  error: 'must be origins such as https://api.openai.com, separated by commas',
});
const ambient = list.refine((all) => all.every((one) => /^(?:aws|google|azure)$/.test(one)), {
  error: 'must be some of aws, google and azure, separated by commas',
});
// Where payment providers may be, beside their own hosts. A port is part of no entry.
const hosts = list.refine(
  (all) => all.every((host) => isOrigin(`https://${host}`) && !/:\d+$/.test(host)),
  { error: 'must be host names such as payments.example, without ports, separated by commas' },
);
const networks = list.refine((all) => all.every(isNetwork), {
  error: 'must be networks such as 10.0.0.0/8, separated by commas',
});
// Keys that are in no variable: a sealed one of the platform, own ones of organizations.
const sealed_or_own = /^(?:sealed|own):[^,@]{1,100}$/;
const bound_variables = list
  .transform((all) =>
    all.map((entry) => {
      const [name = '', ...rest] = entry.split('@');
      return { name, origin: rest.length === 0 ? undefined : rest.join('@') };
    }),
  )
  .refine(
    (all) =>
      all.every(
        ({ name, origin }) =>
          (/^\w+$/.test(name) && (origin === undefined || isOrigin(origin))) ||
          (sealed_or_own.test(name) && origin !== undefined && isOrigin(origin)),
      ),
    {
      error:
        'must be names with the origin that each may be sent to, such as ' +
        'OPENAI_API_KEY@https://api.openai.com, separated by commas',
    },
  );
// Seals secrets in the database, and signs values that clients carry. Of several keys the first one
// does; what any has sealed or signed is good.
const secrets_key = z
  .string('is missing; make one with: openssl rand -base64 32')
  .refine(
    (text) => secretsKeysIn(text) !== undefined,
    'must be 32 bytes in base64, or several such keys with commas between; make one with: openssl rand -base64 32',
  );
// OpenTelemetry's own names. An address turns traces of this process on; the ratio is the share of
// new ones that are kept.
const tracing = {
  OTEL_EXPORTER_OTLP_ENDPOINT: z.url({ protocol: /^https?$/ }).optional(),
  OTEL_TRACES_SAMPLER_ARG: z.coerce.number().min(0).max(1).optional(),
};
// Where files of exports go: one folder that the API and worker_export share.
const folder = z.string().min(1).optional();
// Where notices may go beside the servers of the world, and how the API is reached by those who get
// them.
const notices = {
  NOTICE_NETWORKS: networks.default([]),
  NOTICE_CHAT_HOSTS: hosts.default([]),
  NOTICE_MAIL_FROM: z.email().optional(),
};
// What the folder keeps of one organization: twenty gibibytes.
const export_bytes = z.coerce
  .number()
  .int()
  .positive()
  .default(20 * 2 ** 30);
const level = z.enum(['fatal', 'error', 'warn', 'info', 'debug', 'trace']).default('info');

// One row a variable: its type, and its default if one is safe. Addresses and secrets are never
// defaulted.
export const variables = {
  api: z
    .object({
      DATABASE_URL: z.string().min(1),
      TEMPORAL_ADDRESS: z.string().min(1),
      TEMPORAL_NAMESPACE: z.string().min(1).default('svc'),
      SVC_SECRETS_KEY: secrets_key,
      PAYMENT_HOSTS: hosts.default([]),
      PAYMENT_CA_FILES: list.default([]),
      EXPORT_DIR: folder,
      EXPORT_S3_ORIGINS: origins.default([]),
      EXPORT_OWNER_BYTES_MAX: export_bytes,
      ...notices,
      API_PORT: port.default(8080),
      API_HOST: host,
      DATABASE_POOL_MAX: z.coerce.number().int().min(1).max(200).default(10),
      DATABASE_PEOPLE_POOL_MAX: z.coerce.number().int().min(1).max(200).default(5),
      // Of one key or person, at this process; 0: as many as come.
      REQUESTS_PER_MINUTE: z.coerce.number().int().min(0).max(10_000_000).default(3_000),
      // Proxies in front of this process: sign-ins are counted by the address that they name.
      TRUSTED_PROXIES: networks.default([]),
      LOG_LEVEL: level,
      ...tracing,
      // People may come with a JWT of this identity provider: all three, or none.
      JWT_ISSUER: z.string().min(1).optional(),
      JWT_AUDIENCE: z.string().min(1).optional(),
      JWT_JWKS_URL: z
        .url({ protocol: /^https?$/ })
        .refine(isSafeUrl, 'must begin with https://; http:// only on this machine')
        .optional(),
    })
    .superRefine(jwtTogether),
  gateway: z.object({
    // Several addresses, comma-separated, are tried in turn.
    CONTROL_PLANE_URL: urls,
    CONTROL_PLANE_TOKEN: z.string().min(1),
    GATEWAY_CONFIG: z.string().min(1),
    GATEWAY_PORT: port.default(8081),
    GATEWAY_HOST: host,
    // Configurations reach the gateways of one group in stages.
    GATEWAY_GROUP: z.string().regex(group_pattern, group_rule).default(DEFAULT_GROUP),
    // What a configuration of the control plane may name, beside what stands in the file.
    GATEWAY_ORIGINS: origins.default([]),
    GATEWAY_SECRET_ENVS: bound_variables.default([]),
    // The identities of the machine that targets may stand on, and where such tokens may go beside
    // the hosts of their kinds.
    GATEWAY_AMBIENT_AUTH: ambient.default([]),
    GATEWAY_AMBIENT_ORIGINS: origins.default([]),
    // Settlements that this process does not live to send are sent by the next one.
    GATEWAY_SPOOL_DIR: z.string().min(1).optional(),
    LOG_LEVEL: level,
    // Its configuration says where traces go.
    OTEL_TRACES_SAMPLER_ARG: tracing.OTEL_TRACES_SAMPLER_ARG,
  }),
  worker: z.object({
    DATABASE_URL: z.string().min(1),
    TEMPORAL_ADDRESS: z.string().min(1),
    TEMPORAL_NAMESPACE: z.string().min(1).default('svc'),
    SVC_SECRETS_KEY: secrets_key,
    PAYMENT_HOSTS: hosts.default([]),
    EXPORT_DIR: folder,
    EXPORT_S3_ORIGINS: origins.default([]),
    EXPORT_OWNER_BYTES_MAX: export_bytes,
    ...notices,
    NOTICE_SMTP_URL: z.url({ protocol: /^smtps?$/ }).optional(),
    API_PUBLIC_URL: z
      .string()
      .refine(isOrigin, 'must be an origin such as https://api.example.com')
      .optional(),
    CONSOLE_ORIGIN: console_origin.optional(),
    // Of its probes; absent: it answers none.
    WORKER_PORT: port.optional(),
    WORKER_HOST: host,
    // While an API of before 1.5 is rolled back to: it does not sign the verdicts of tickets.
    ACCEPT_UNSIGNED_VERDICTS_UNTIL: z.iso
      .datetime({ offset: true, error: 'must be a time such as 2027-01-31T00:00:00Z' })
      .transform((text) => new Date(text))
      .optional(),
    LOG_LEVEL: level,
    ...tracing,
  }),
  console: z.object({
    CONSOLE_PORT: port.default(3000),
    CONSOLE_HOST: host,
    // The address that people's browsers know: links back to it lead there, and nowhere else.
    CONSOLE_ORIGIN: console_origin,
    // Where the API is, seen from here.
    CONSOLE_API_URL: z.url({ protocol: /^https?$/ }),
    // The gateway for the chat.
    CONSOLE_GATEWAY_URL: z.url({ protocol: /^https?$/ }).optional(),
    // The first seals, all of them open.
    CONSOLE_COOKIE_KEYS: list.refine(
      (all) => all.length > 0 && all.every(isSecretsKey),
      'must be keys of 32 bytes in base64, separated by commas; make one with: openssl rand -base64 32',
    ),
    // What npm run build:console has made.
    CONSOLE_DIR: z.string().min(1).default('.data/console'),
    TRUSTED_PROXIES: networks.default([]),
    LOG_LEVEL: level,
  }),
  // What stands in the built page, fixed by the build.
  console_build: z.object({
    PUBLIC_API_URL: public_url,
    PUBLIC_GATEWAY_URL: public_url,
    CONSOLE_DIR: z.string().min(1).default('.data/console'),
  }),
  // Beside a running `npm start` its demo.json says where the database is.
  admin: z.object({
    DATABASE_URL: z.string().min(1).optional(),
    TEMPORAL_ADDRESS: z.string().min(1).optional(),
    TEMPORAL_NAMESPACE: z.string().min(1).default('svc'),
    SVC_SECRETS_KEY: secrets_key.optional(),
    DATA_DIR: z.string().min(1).default('.data'),
  }),
  // Of a deployment that is looked at from outside; beside `npm start` its demo.json has all.
  verify: z.object({
    VERIFY_PLATFORM_KEY: z.string().min(1).optional(),
    VERIFY_GATEWAY_KEY: z.string().min(1).optional(),
    DATABASE_URL: z.string().min(1).optional(),
    DATA_DIR: z.string().min(1).default('.data'),
  }),
  // The variables of `npm start`; a port that is not named has a default in
  // sandbox/processes/addresses.ts.
  product: z.object({
    DATA_DIR: z.string().min(1).default('.data'),
    // Absent: one is made, and kept in DATA_DIR.
    SVC_SECRETS_KEY: secrets_key.optional(),
    DATABASE_URL: z.url().optional(),
    TEMPORAL_ADDRESS: z.string().min(1).optional(),
    GATEWAY_CONFIG: z.string().min(1).optional(),
    GATEWAY_SECRET_ENVS: bound_variables.default([]),
    // Beside the sandbox's.
    PAYMENT_HOSTS: hosts.default([]),
    PAYMENT_CA_FILES: list.default([]),
    // All parts take it from here, and the written gateway.yaml names it.
    OTEL_EXPORTER_OTLP_ENDPOINT: tracing.OTEL_EXPORTER_OTLP_ENDPOINT,
    APIS: z.coerce.number().int().min(1).max(16).default(1),
    GATEWAYS: z.coerce.number().int().min(1).max(16).default(1),
    PORTS: z.enum(['free']).optional(),
    POSTGRES_PORT: chosen_port,
    TEMPORAL_PORT: chosen_port,
    TEMPORAL_UI_PORT: chosen_port,
    SANDBOX_MODELS_PORT: chosen_port,
    SANDBOX_PAYMENT_A_PORT: chosen_port,
    SANDBOX_PAYMENT_B_PORT: chosen_port,
    SANDBOX_SHOP_PORT: chosen_port,
    SANDBOX_MCP_PORT: chosen_port,
    SANDBOX_IDENTITY_PORT: chosen_port,
    SANDBOX_NOTICES_PORT: chosen_port,
    SANDBOX_SMTP_PORT: chosen_port,
    API_PORT: chosen_port,
    API_HOST: product_host,
    GATEWAY_PORT: chosen_port,
    GATEWAY_HOST: product_host,
    CONSOLE_PORT: chosen_port,
    CONSOLE_HOST: product_host,
  }),
};

function jwtTogether(
  { JWT_ISSUER, JWT_AUDIENCE, JWT_JWKS_URL }: Record<string, unknown>,
  check: z.RefinementCtx,
): void {
  const given = Object.entries({ JWT_ISSUER, JWT_AUDIENCE, JWT_JWKS_URL });
  const missing = given.filter(([, value]) => value === undefined);
  if (missing.length === given.length) return;
  for (const [name] of missing)
    check.addIssue({ code: 'custom', path: [name], message: 'is needed with the other JWT_ ones' });
}
