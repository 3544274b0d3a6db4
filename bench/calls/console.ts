import { randomBytes } from 'node:crypto';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { Pool } from 'undici';
import * as tokens from '../../domain/people/tokens';
import { openDatabase } from '../../runtime/database';
import { freePorts } from '../../sandbox/processes/ports';
import type { BenchCluster } from '../cluster';
import { end, startScript, waitFor } from '../programs';
import { percentile, type Row } from '../row';
import { startStack } from '../stack';

/** Fewer than one key may send at once; the first of each warm both programs. */
const CALLS = 400;
const WARM = 50;
/** What the console may add: a millisecond, and half of what the API takes itself. */
const BASE_MS = 1;
const SHARE = 0.5;

/** What the console's server adds to a list that the API answers directly, each by turns. */
export async function consoleRow(cluster: BenchCluster): Promise<Row> {
  const stack = await startStack(cluster);
  const folder = mkdtempSync(path.join(tmpdir(), 'svc-bench-console-'));
  // Pages are not measured: nobody asks for one.
  const built = { script: '', styles: [], origins: '', api_url: '', gateway_url: '' };
  mkdirSync(path.join(folder, 'assets'));
  writeFileSync(path.join(folder, 'built.json'), JSON.stringify(built));
  const [port = 0] = await freePorts(1);
  const url = `http://127.0.0.1:${port}`;
  const web = startScript('console/main.ts', {
    CONSOLE_PORT: String(port),
    CONSOLE_HOST: '127.0.0.1',
    CONSOLE_ORIGIN: url,
    CONSOLE_API_URL: stack.api.url,
    CONSOLE_COOKIE_KEYS: randomBytes(32).toString('base64'),
    CONSOLE_DIR: folder,
    LOG_LEVEL: 'error',
  });
  const [api, console_] = [stack.api.url, url].map((one) => new Pool(one, { connections: 1 }));
  try {
    await waitFor(`${url}/api/health`, true);
    const key = await platformKey(stack.database_url);
    const own = { 'x-svc-console': '1', 'sec-fetch-site': 'same-origin' };
    const cookie = await signIn(console_ as Pool, own, key);
    const direct: number[] = [];
    const through: number[] = [];
    for (let n = 0; n < WARM + CALLS; n += 1) {
      const headers = { authorization: `Bearer ${key}` };
      direct.push(await timeOf(api as Pool, '/v1/admin/organizations?per_page=20', headers));
      const as_page = { ...own, cookie };
      through.push(await timeOf(console_ as Pool, '/api/organizations?per_page=20', as_page));
    }
    const [alone, both] = [direct, through].map((all) => percentile(all.slice(WARM), 0.5)) as [
      number,
      number,
    ];
    const ratio = (both - alone) / (BASE_MS + SHARE * alone);
    return {
      measure: 'what the console adds to a list of the API, p50, 1 in flight',
      figure: `${(both - alone).toFixed(2)} ms; the API alone ${alone.toFixed(2)} ms`,
      ratio,
      bar: 'at most 1 ms + 0.5 of the API alone',
      isMet: ratio <= 1,
    };
  } finally {
    await Promise.all([api?.destroy(), console_?.destroy()]);
    await end(web);
    await stack.stop();
    rmSync(folder, { recursive: true, force: true });
  }
}

async function platformKey(database_url: string): Promise<string> {
  const db = openDatabase(database_url, 1);
  const { key } = await tokens.issue(db, {
    org_id: null,
    name: 'bench',
    token_type: 'access',
    scopes: ['platform:admin'],
    allowed_models: null,
    user_id: null,
    team_id: null,
    agent_id: null,
    max_budget_nanos: null,
    expires_at: null,
    created_by: 'bench',
  });
  await db.destroy();
  return key;
}

async function signIn(pool: Pool, own: Record<string, string>, key: string): Promise<string> {
  const { statusCode, headers, body } = await pool.request({
    method: 'POST',
    path: '/api/session',
    headers: { ...own, 'content-type': 'application/json' },
    body: JSON.stringify({ access_key: key }),
  });
  const said = await body.text();
  if (statusCode !== 204) throw new Error(said);
  return String(headers['set-cookie']).split(';')[0] ?? '';
}

/** Milliseconds until an answer is there to its end. */
async function timeOf(pool: Pool, at: string, headers: Record<string, string>): Promise<number> {
  const began = performance.now();
  const { statusCode, body } = await pool.request({ method: 'GET', path: at, headers });
  const said = await body.text();
  const took = performance.now() - began;
  if (statusCode !== 200) throw new Error(said);
  return took;
}
