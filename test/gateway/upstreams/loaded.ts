import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import '../../../gateway/main';
import { parseSettings } from '../../../gateway/config/settings';
import { openProviders } from '../../../gateway/upstreams/targets';

// Run as a program by loaded.test.ts: opens targets of every credential, and tells which packages
// of vendors are loaded then, and behind the first request of each.

const packages = [
  '@aws-sdk/credential-providers',
  '@smithy/signature-v4',
  'google-auth-library',
  '@azure/msal-node',
  '@smithy/eventstream-codec',
];

function loaded(): string[] {
  const files = Object.keys(require.cache);
  return packages.filter((name) => files.some((file) => file.includes(`/node_modules/${name}/`)));
}

const aws = { access_key_id_env: 'TEST_KEY', secret_access_key_env: 'TEST_KEY' };
const application = { tenant_id: 't', client_id: 'c', client_secret_env: 'TEST_KEY' };
const vertex = { kind: 'vertex', shape: 'openai', project: 'acme-1', location: 'global' };
const bedrock = { kind: 'bedrock', region: 'eu-west-1', shape: 'openai' };
const rows = [
  { id: 'key', kind: 'openai', auth: { key_env: 'TEST_KEY' } },
  { id: 'aws', ...bedrock, auth: { aws } },
  { id: 'google', ...vertex, auth: { google: { credentials_file_env: 'TEST_FILE' } } },
  { id: 'entra', kind: 'azure', resource: 'acme', auth: { entra: application } },
];

/** Prints which packages are loaded, by what was done before. */
export async function main(): Promise<void> {
  // No key and no host of that name: a credential is asked for, and nothing is sent.
  const file = path.join(mkdtempSync(path.join(tmpdir(), 'svc-google-')), 'account.json');
  const account = { type: 'service_account', client_email: 'a@b.example', private_key: 'none' };
  writeFileSync(file, JSON.stringify(account));
  const AZURE_AUTHORITY_HOST = 'https://nowhere.invalid';
  Object.assign(process.env, { TEST_KEY: 'none', TEST_FILE: file, AZURE_AUTHORITY_HOST });
  const targets = rows.map((row) => ({ ...row, models: [row.id] }));
  const settings = parseSettings(JSON.stringify({ providers: { targets } }));
  const sealed = { current: async () => '', refuse: () => false };
  const providers = openProviders(settings, { sealed });
  const told: Record<string, string[]> = { start: loaded() };
  const family = { name: 'chat_completions', shapes: ['openai' as const] };
  for (const { id } of rows) {
    const target = providers.route(id, family, null)?.tiers[0]?.[0]?.target;
    const outbound = { method: 'POST', path: '/', body: Buffer.alloc(0) } as const;
    await Promise.resolve(target?.credential.headersFor?.(outbound)).catch(() => undefined);
    told[id] = loaded();
  }
  await providers.close();
  process.stdout.write(JSON.stringify(told));
}
