// Which room may import which, types included. A room is a folder, or a file that lies between
// rooms.

/** The rooms of the project; a room may import itself and those named here. */
export const house: Record<string, string> = {
  domain: '',
  runtime: 'domain',
  'payment-providers': 'domain runtime',
  migrations: 'runtime',
  'price-catalogs': 'domain runtime',
  exports: 'domain runtime',
  notices: 'domain runtime',
  activities: 'domain exports notices payment-providers price-catalogs',
  workflows: 'activities domain', // Types only: the bundle's own test says so.
  temporal: 'domain runtime workflows', // Of workflows only types.
  gateway: 'domain runtime',
  api: 'domain exports gateway/config migrations notices payment-providers price-catalogs runtime temporal',
  workers: 'activities domain exports runtime temporal workflows',
  console: 'domain runtime',
  sandbox: 'domain gateway/config migrations price-catalogs runtime temporal',
  bench: 'activities api domain exports gateway migrations runtime sandbox temporal',
};

/** The rooms of the gateway, lowest first. */
export const gateway: Record<string, string> = {
  wire: '',
  'control-plane': '',
  counting: 'wire',
  providers: '',
  config: 'providers wire',
  identity: 'config control-plane',
  upstreams: 'config providers wire',
  limits: 'config',
  policy: 'config wire',
  telemetry: 'config limits',
  families: 'config counting policy providers upstreams wire',
  call: 'config control-plane counting families identity limits policy telemetry upstreams',
  stages:
    'call config control-plane counting families identity limits policy providers upstreams wire',
  exchange: 'call families policy providers stages upstreams wire',
  pipeline: 'call exchange stages',
  sockets: 'call config families identity pipeline stages upstreams wire',
  mcp: 'call config control-plane exchange families identity pipeline policy stages upstreams wire',
  key: 'call limits providers stages',
  models: 'call control-plane providers stages upstreams',
  routes: 'call families key mcp models pipeline providers sockets stages',
  'family-table': 'config families routes sockets',
  'kind-table': 'families family-table providers upstreams',
  warnings: 'call config control-plane providers',
  adopt: 'call config counting families stages warnings',
  reports: 'call',
  configuration: 'adopt call config control-plane reports',
  gateway: 'adopt call config control-plane counting identity limits sockets telemetry',
  app: 'call configuration routes stages warnings',
  main: 'app call config configuration control-plane gateway sockets warnings',
};

/** The rooms of the API. */
export const api: Record<string, string> = {
  ledger: '',
  http: 'ledger',
  answers: 'http',
  identity: 'answers http',
  machine: 'answers http',
  notices: 'answers http',
  payments: 'answers http',
  people: 'answers http',
  routes: 'answers http',
  table: 'identity machine notices payments people routes',
  openapi: 'http table',
  app: 'http ledger notices openapi table',
  main: 'app http ledger notices',
  'admin-exports': '',
  'price-words': '',
  'price-files': 'answers',
  'admin-prices': 'price-files price-words',
  'admin-setup': '',
  'admin-secrets': '',
  'admin-spend': '',
  admin: 'admin-exports admin-prices admin-secrets admin-setup admin-spend',
  verify: '',
};

/** The rooms of the domain. */
export const domain: Record<string, string> = {
  errors: '',
  texts: '',
  trace: '',
  digest: '',
  ids: '',
  'rate-limits': '',
  secrets: '',
  sql: 'errors',
  money: 'errors',
  'time-zones': 'errors sql',
  'exchange-rates': 'errors money sql',
  pages: 'sql',
  lists: 'digest errors pages sql',
  named: '',
  outbox: 'errors pages sql texts',
  events: 'errors sql',
  'audit-events': 'pages sql',
  'audit-log': 'audit-events lists pages sql',
  sealed: 'audit-events secrets sql',
  'event-places': 'events sql',
  known: 'errors sql',
  gateways: 'errors ids lists pages sealed secrets sql',
  shares: '',
  json: 'errors texts',
  'stored-answers': 'errors sql',
  people: 'audit-events digest errors known lists named pages sql texts trace',
  notices: 'digest errors ids known lists pages sealed secrets sql',
  spend: 'errors known people sql',
  ledger:
    'audit-events errors events ids known lists money named pages people secrets sql texts time-zones trace',
  prices: 'digest errors events ledger sql texts',
  exports: 'errors events ids known lists money pages people sealed secrets sql time-zones',
  payments: 'audit-events errors known ledger lists money pages sealed secrets sql',
};

/** The rooms of the console: its pages import nothing of the rest but types that are made. */
export const console_rooms: Record<string, string> = {
  server: '',
  main: 'server',
  'api-types': 'server',
  build: '',
  web: '',
};

/** The rooms of the console's pages. */
export const web: Record<string, string> = {
  generated: '',
  base: '',
  api: 'base generated',
  session: 'api base',
  parts: 'api base session',
  fields: 'api base parts session',
  keys: 'api base fields parts session',
  payments: 'api base fields parts session',
  prices: 'api base fields parts session',
  exports: 'api base parts session',
  tickets: 'api base fields parts session',
  wallets: 'api base fields parts session',
  requests: 'api base parts tickets/words wallets/entry-words',
  spend: 'api base fields parts requests/family-words',
  chat: 'api base fields parts payments',
  operations: 'api base parts session',
  people: 'api base fields parts session wallets',
  agents: 'api base fields keys parts people session',
  settings: 'api base fields parts session tickets',
  setup: 'api base fields keys parts requests session',
  screens:
    'agents api base chat exports fields keys operations parts payments people prices requests session settings setup spend tickets wallets',
  app: 'api base parts screens session tickets',
  theme: '',
  main: 'api app base theme',
};
