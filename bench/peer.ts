import { execFile, spawn } from 'node:child_process';
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';
import { cacheFolder } from '../runtime/config';
import { freePorts } from '../sandbox/processes/ports';
import { end, waitFor } from './programs';

const run = promisify(execFile);
const VERSION = '1.15.2';

/**
 * The public peer on npm, passing requests on to the given upstream. Installed once into a cache
 * folder of its own.
 */
export async function startPeer(upstream_url: string) {
  const folder = path.join(cacheFolder(), `peer-${VERSION}`);
  const script = path.join(folder, 'node_modules/@portkey-ai/gateway/build/start-server.js');
  if (!existsSync(script)) await install(folder);
  const [port = 0] = await freePorts(1);
  const child = spawn(process.execPath, [script, `--port=${port}`, '--headless'], {
    cwd: folder,
    stdio: 'ignore',
  });
  const url = `http://127.0.0.1:${port}`;
  await waitFor(url, false);
  const headers = {
    'x-portkey-provider': 'openai',
    'x-portkey-custom-host': `${upstream_url}/v1`,
    authorization: 'Bearer any',
  };
  return { url, headers, pid: child.pid as number, stop: () => end(child) };
}

async function install(folder: string): Promise<void> {
  mkdirSync(folder, { recursive: true });
  const manifest = {
    private: true,
    dependencies: { '@portkey-ai/gateway': VERSION },
    overrides: { hono: '4.9.7', '@hono/node-server': '1.13.8' },
  };
  writeFileSync(path.join(folder, 'package.json'), JSON.stringify(manifest));
  await run('npm', ['install', '--no-audit', '--no-fund', '--ignore-scripts'], { cwd: folder });
}
