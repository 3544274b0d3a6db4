import { type ChildProcess, spawn } from 'node:child_process';
import { chmodSync, existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import path from 'node:path';
import { rolePermissions } from '../../../domain/people/roles';
import { root } from '../../../runtime/root';
import type { Demo } from '../../../sandbox/demo/facts';
import { scratchRoot } from '../scratch';
import { until } from '../until';

const START_MS = 300_000;

/** The product that the tests of a run share. */
interface SharedProduct {
  stop: () => Promise<void>;
}

// Jest calls the whole module, so the function is the module.
export = async (): Promise<void> => {
  const folder = mkdtempSync(path.join(scratchRoot(), 'svc-console-'));
  // PostgreSQL's system user must enter it if the tests run as root.
  chmodSync(folder, 0o755);
  const data_dir = path.join(folder, 'data');
  const child = spawn(process.execPath, ['run.cjs', 'sandbox/start.ts'], {
    cwd: root,
    // The console believes whom a proxy on this machine names: tests come from many addresses.
    env: { ...process.env, DATA_DIR: data_dir, PORTS: 'free', TRUSTED_PROXIES: '127.0.0.1' },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const output = wordsOf(child);
  const demo_file = path.join(data_dir, 'demo.json');
  await until(() => existsSync(demo_file) || child.exitCode !== null, START_MS);
  if (child.exitCode !== null) throw new Error(output());
  process.env.SVC_CONSOLE_DEMO = demo_file;
  process.env.SVC_CONSOLE_OWNER_KEY = await ownerKey(JSON.parse(readFileSync(demo_file, 'utf8')));
  const stop = async () => {
    const ended = new Promise((resolve) => child.once('exit', resolve));
    child.kill('SIGTERM');
    await ended;
    rmSync(folder, { recursive: true, force: true });
  };
  (globalThis as { console_product?: SharedProduct }).console_product = { stop };
};

function wordsOf(child: ChildProcess): () => string {
  let output = '';
  for (const stream of [child.stdout, child.stderr])
    stream?.on('data', (chunk) => {
      output = `${output}${chunk}`.slice(-20_000);
    });
  return () => output;
}

/** An access key of the demo's owner, with all that an owner may do. */
async function ownerKey({ api_url, keys, organization_id, owner_id }: Demo): Promise<string> {
  const answer = await fetch(`${api_url}/v1/tokens`, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${keys.platform_admin}`,
      'content-type': 'application/json',
    },
    body: JSON.stringify({
      org_id: organization_id,
      name: 'owner at the console',
      token_type: 'access',
      scopes: rolePermissions.owner,
      user_id: owner_id,
    }),
  });
  if (answer.status !== 201) throw new Error(await answer.text());
  return ((await answer.json()) as { key: string }).key;
}
