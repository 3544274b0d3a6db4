import { generateKeyPairSync } from 'node:crypto';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { parse, stringify } from 'yaml';
import { servedModels, type TargetSettings } from '../../gateway/config/targets';
import { listen } from '../../runtime/listen';
import { root } from '../../runtime/root';
import { createModelServer } from '../models/server';
import { REGION, standInFor } from './places';
import { createProviderServer, type ProviderOptions } from './server';

// `npm run sandbox:providers`: a provider of each kind on this machine, without an account. It
// writes the targets of docs/providers.md with its own addresses, and the variables that they name.

const PORT = 8095;
const KEY = 'sandbox';

/** Run as a program, until it is stopped. */
export async function main(): Promise<void> {
  const { DATA_DIR = '.data', SANDBOX_PROVIDERS_PORT } = process.env;
  const folder = path.resolve(DATA_DIR, 'providers');
  mkdirSync(folder, { recursive: true });
  const host = '127.0.0.1';
  const models_port = await listen(createModelServer(), 0, { host });
  const { publicKey, privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
  const options = optionsFor(`http://${host}:${models_port}`, publicKey);
  const given = Number(SANDBOX_PROVIDERS_PORT ?? PORT);
  const place = { host, name: 'SANDBOX_PROVIDERS' };
  const port = await listen(createProviderServer(options), given, place);
  const origin = `http://${host}:${port}`;

  const account = {
    ...{ type: 'service_account', client_email: options.vertex.client_email },
    private_key: privateKey.export({ type: 'pkcs8', format: 'pem' }),
    token_uri: `${origin}/token`,
  };
  const account_file = path.join(folder, 'account.json');
  writeFileSync(account_file, JSON.stringify(account), { mode: 0o600 });
  const targets = documented().map((row) => ({
    ...standInFor(row, origin),
    // Several kinds serve the same models: each is asked for by its target.
    models: servedModels(row).map(({ name, upstream, priced }) => ({
      ...{ name: `${row.id}/${name}`, upstream, price_as: priced },
    })),
  }));
  const config = path.join(folder, 'gateway.yaml');
  writeFileSync(config, stringify({ providers: { targets } }));
  const variables = { ...variablesFor(targets, account_file), GATEWAY_AMBIENT_ORIGINS: origin };
  const env = path.join(folder, 'env');
  const lines = Object.entries(variables).map(([name, value]) => `${name}=${value}\n`);
  writeFileSync(env, lines.join(''), { mode: 0o600 });
  process.stdout.write(`Providers of each kind answer on ${origin}.
Targets: ${config}
Variables that a gateway on them needs: ${env}
`);
}

/** The targets of docs/providers.md that name their models, each once. */
function documented(): TargetSettings[] {
  const document = readFileSync(path.join(root, 'docs/providers.md'), 'utf8');
  const blocks = [...document.matchAll(/^### \w+\n\n```yaml\n([^`]+)```/gm)];
  const rows = blocks.flatMap(([, text = '']) => parse(text).providers.targets);
  return (rows as TargetSettings[]).filter(({ models }) => models !== undefined);
}

/** Every variable that the targets name, and those of the identity of a machine. */
function variablesFor(targets: readonly object[], account_file: string): Record<string, string> {
  const named = [...JSON.stringify(targets).matchAll(/"\w+_env":"(\w+)"/g)];
  const keys = named.map(([, name = '']) => [name, KEY] as const);
  return {
    ...Object.fromEntries(keys),
    GATEWAY_AMBIENT_AUTH: 'aws,google,azure',
    AWS_ACCESS_KEY_ID: KEY,
    AWS_SECRET_ACCESS_KEY: KEY,
    GOOGLE_APPLICATION_CREDENTIALS: account_file,
    GCP_SA: account_file,
  };
}

function optionsFor(
  models_url: string,
  public_key: ProviderOptions['vertex']['public_key'],
): ProviderOptions {
  const keys = new Map([[KEY, { secret: KEY }]]);
  const bearers = new Set<string>();
  const any = { has: () => true } as unknown as ReadonlySet<string>;
  const lifetime_s = 3_600;
  return {
    models_url,
    keys: new Set([KEY]),
    bedrock: { keys, region: REGION, bearers: new Set([KEY]), now: () => new Date() },
    vertex: {
      ...{ public_key, client_email: 'svc@acme-1.iam.gserviceaccount.com', project: 'acme-1' },
      ...{ lifetime_s, now: Date.now, tokens: new Map(), is_down: false },
    },
    azure: { keys: new Set([KEY]), bearers, deployments: any },
    sts: { keys, role_arn: '', external_id: '', lifetime_s, now: () => new Date() },
    entra: {
      ...{ tenant: '', client_id: '', client_secret: '', assertion: '', scope: '' },
      ...{ lifetime_s, bearers, machine: { secret: '', is_down: true } },
    },
  };
}
