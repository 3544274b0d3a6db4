import path from 'node:path';
import * as configs from '../../domain/gateways/configs';
import { DEFAULT_GROUP } from '../../domain/gateways/groups';
import { createSecrets } from '../../domain/secrets';
import { placesOf } from '../../gateway/config/reach';
import { loadSettings } from '../../gateway/config/settings';
import { migrate } from '../../migrations';
import { temporalVariables } from '../../runtime/config';
import { openDatabase } from '../../runtime/database';
import { temporalAddress as addressOf, type TemporalAddress } from '../../temporal/connection';
import { prepare } from '../../temporal/prepare';
import { gatewayConfig, logFolder } from '../demo/demo';
import type { Demo, Printed } from '../demo/facts';
import { seedIdentity } from '../demo/identity-seed';
import { demoModels } from '../demo/models';
import { seedPayments } from '../demo/payment-seed';
import { type Seeded, seed } from '../demo/seed';
import { signInCode } from '../demo/sign-in';
import { localUrl, type Ports, type StartOptions } from '../processes/addresses';
import type { Output } from '../processes/output';
import { secretsKey } from '../processes/secrets-key';
import type { Stack } from '../processes/stack';
import type { Kept } from '../processes/supervisor';
import { ensureDatabase, useDatabase } from '../servers/database';
import { prepareCluster } from '../servers/postgres';
import { NAMESPACE, prepareTemporal, useTemporal } from '../servers/temporal';
import { buildConsole, startConsole } from './console-program';
import { serverProgram, workerProgram } from './node-programs';
import { paymentAuthorities, paymentPlaces, startPayments } from './payment-programs';
import { noticeEnv, sandboxPlaces, startSandbox } from './sandbox-programs';

interface Context {
  options: StartOptions;
  ports: Ports;
  stack: Stack;
  output: Output;
}

interface Database {
  url: string;
  server?: Kept;
  seeded: Seeded;
}

interface Temporal {
  address: string;
  ui_url: string | null;
  server?: Kept;
}

export interface Product {
  /** The addresses, and the processes as they are at this moment. */
  demo: () => Demo;
  more: Printed;
}

/**
 * Starts every part as soon as the parts that it needs are ready, and resolves when the whole
 * works.
 */
export async function startProduct(context: Context): Promise<Product> {
  const building_console = buildConsole(context);
  const starting_temporal = startTemporal(context);
  const starting_database = startDatabase(context);
  const starting_config = starting_database.then(({ seeded }) =>
    gatewayConfig(context.options, context.ports, seeded),
  );
  const [temporal, database, [apis, gateways], worker, web] = await Promise.all([
    starting_temporal,
    starting_database,
    Promise.all([starting_database, starting_config]).then(([database, config]) =>
      startServices(context, database, config),
    ),
    Promise.all([starting_temporal, starting_database]).then(([temporal, database]) =>
      startWorker(context, temporal, database),
    ),
    startConsole(context, building_console),
    startSandbox(context, starting_database),
    starting_database.then(({ seeded }) => startPayments(context, seeded.keys.billing_admin)),
  ]);
  const { wallet_id, ...seeded } = database.seeded;
  const sign_in = await signInCode(database.url, database.seeded);
  const addresses = addressesOf(context.ports, sign_in);
  const { is_priced, ...named } = await demoModels(
    await starting_config,
    addresses.api_url,
    seeded,
  );
  const demo = () => ({
    ...addresses,
    pids: {
      apis: apis.map(pidOf),
      gateways: gateways.map(pidOf),
      console: pidOf(web),
      ...workerPids(pidOf(worker)),
      temporal: temporal.server?.pid ?? null,
      postgres: database.server?.pid ?? null,
    },
    temporal_address: temporal.address,
    temporal_ui_url: temporal.ui_url,
    database_url: database.url,
    ...sandboxPlaces(context.ports),
    ...seeded,
    ...named,
  });
  return {
    demo,
    more: {
      wallet_id,
      is_priced,
      log_folder: logFolder(context.options),
      checkout_file: path.resolve(context.options.DATA_DIR, 'checkout.json'),
    },
  };
}

/** Where the parts are; the console's link signs in once. */
function addressesOf({ apis, gateways, console: console_port }: Ports, sign_in: string) {
  const api_urls = apis.map(localUrl);
  const gateway_urls = gateways.map(localUrl);
  const console_url = localUrl(console_port);
  return {
    api_url: api_urls[0] as string,
    gateway_url: gateway_urls[0] as string,
    api_urls,
    gateway_urls,
    console_url,
    console_sign_in_url: `${console_url}/login#code=${sign_in}`,
  };
}

async function startDatabase(context: Context): Promise<Database> {
  const { options, ports, stack, output } = context;
  const data_dir = path.resolve(options.DATA_DIR);
  if (options.DATABASE_URL) {
    await useDatabase(options.DATABASE_URL);
    return { url: options.DATABASE_URL, seeded: await fill(options.DATABASE_URL, context) };
  }
  const { program, url, notes } = await prepareCluster({ data_dir, port: ports.postgres });
  for (const note of notes) output.log.warn(note);
  const server = await stack.run('servers', program);
  await ensureDatabase(url);
  return { url, server, seeded: await fill(url, context) };
}

async function fill(url: string, { options, ports, output }: Context): Promise<Seeded> {
  const db = openDatabase(url, 2, 'svc start');
  try {
    await migrate(db);
    const seeded = await seed(db, { data_dir: path.resolve(options.DATA_DIR) });
    const secrets = createSecrets(secretsKey(options));
    await seedIdentity(db, seeded, localUrl(ports.identity));
    await seedPayments(db, secrets, seeded.organization_id, {
      ...paymentPlaces(ports),
      console_url: localUrl(ports.console),
    });
    const stored = await configs.ofGroup(db, DEFAULT_GROUP);
    if (stored?.config)
      output.log.warn(
        `Gateways run version ${stored.version} of the control plane's configuration, not ` +
          "this start's gateway.yaml; its addresses may be those of an earlier start. DELETE " +
          '/v1/admin/gateway-config sends them back.',
      );
    return seeded;
  } finally {
    await db.destroy();
  }
}

async function startTemporal({ options, ports, stack }: Context): Promise<Temporal> {
  if (options.TEMPORAL_ADDRESS) {
    await useTemporal(reachedAt(options.TEMPORAL_ADDRESS, options));
    return { address: options.TEMPORAL_ADDRESS, ui_url: null };
  }
  const folder = path.resolve(options.DATA_DIR, 'temporal');
  const { temporal: port, temporal_ui: ui_port } = ports;
  const server = await stack.run('servers', await prepareTemporal({ folder, port, ui_port }));
  return { address: temporalAddress(options, ports), ui_url: localUrl(ui_port), server };
}

/** The address of Temporal, which may not answer yet: an API starts before it. */
function temporalAddress(options: StartOptions, ports: Ports): string {
  return options.TEMPORAL_ADDRESS ?? `127.0.0.1:${ports.temporal}`;
}

/** How the product reaches Temporal: by the SDK's variables only if somebody else runs it. */
function temporalEnv(address: string, options: StartOptions): Record<string, string> {
  const given = options.TEMPORAL_ADDRESS === undefined ? {} : temporalVariables();
  return { ...given, TEMPORAL_ADDRESS: address, TEMPORAL_NAMESPACE: NAMESPACE };
}

function reachedAt(address: string, options: StartOptions): TemporalAddress {
  return addressOf(temporalEnv(address, options));
}

/** The gateways are ready once an API answers them, so both start at once. */
async function startServices(
  { options, ports, stack }: Context,
  { url, seeded }: Database,
  config_file: string,
): Promise<[Kept[], Kept[]]> {
  const authorities = await paymentAuthorities(options);
  const apis = ports.apis.map((port, index) =>
    serverProgram({
      name: numbered('api', index, ports.apis),
      script: 'api/main.ts',
      process_name: 'api',
      env: {
        DATABASE_URL: url,
        SVC_SECRETS_KEY: secretsKey(options),
        PAYMENT_HOSTS: paymentHosts(options),
        PAYMENT_CA_FILES: authorities,
        EXPORT_DIR: path.resolve(options.DATA_DIR, 'exports'),
        ...noticeEnv(ports),
        ...temporalEnv(temporalAddress(options, ports), options),
        // The console says from where people sign in.
        TRUSTED_PROXIES: '127.0.0.1',
        API_PORT: String(port),
        API_HOST: options.API_HOST,
      },
      ready_url: `${localUrl(port)}/readyz`,
    }),
  );
  const env = {
    CONTROL_PLANE_URL: ports.apis.map(localUrl).join(','),
    CONTROL_PLANE_TOKEN: seeded.keys.control_plane,
    GATEWAY_CONFIG: config_file,
  };
  // What its file names, and what the control plane's configuration may.
  const named = [
    ...placesOf(loadSettings(config_file)).flatMap(({ variable }) => variable ?? []),
    ...options.GATEWAY_SECRET_ENVS.flatMap(({ name }) => (name.includes(':') ? [] : name)),
  ];
  const gateways = ports.gateways.map((port, index) =>
    serverProgram({
      name: numbered('gateway', index, ports.gateways),
      script: 'gateway/main.ts',
      process_name: 'gateway',
      named,
      env: { ...env, GATEWAY_PORT: String(port), GATEWAY_HOST: options.GATEWAY_HOST },
      ready_url: `${localUrl(port)}/readyz`,
    }),
  );
  return Promise.all([
    Promise.all(apis.map((program) => stack.run('services', program))),
    Promise.all(gateways.map((program) => stack.run('gateways', program))),
  ]);
}

/** The three worker programs in one process: another Node with the SDK costs 100 MB. */
async function startWorker(
  { options, ports, stack }: Context,
  temporal: Temporal,
  database: Database,
): Promise<Kept> {
  const to = reachedAt(temporal.address, options);
  const db = openDatabase(database.url, 1, 'svc start');
  await prepare(to, NAMESPACE, db).finally(() => db.destroy());
  const program = workerProgram({
    name: 'workers',
    script: 'workers/main.ts',
    process_name: 'worker',
    env: {
      DATABASE_URL: database.url,
      SVC_SECRETS_KEY: secretsKey(options),
      PAYMENT_HOSTS: paymentHosts(options),
      EXPORT_DIR: path.resolve(options.DATA_DIR, 'exports'),
      ...noticeEnv(ports),
      ...temporalEnv(temporal.address, options),
    },
    to,
    task_queue: 'lifecycle',
  });
  return stack.run('services', program);
}

/** The sandbox's providers are on this machine. */
function paymentHosts({ PAYMENT_HOSTS }: StartOptions): string {
  return ['127.0.0.1', ...PAYMENT_HOSTS].join(',');
}

function numbered(name: string, index: number, all: number[]): string {
  return all.length === 1 ? name : `${name}-${index + 1}`;
}

function workerPids(pid: number) {
  return { worker_lifecycle: pid, worker_export: pid, worker_config: pid };
}

function pidOf({ pid }: Kept): number {
  return pid as number;
}
