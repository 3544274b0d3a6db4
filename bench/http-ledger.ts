import { Pool } from 'undici';
import { freePorts } from '../sandbox/processes/ports';
import type { BenchCluster } from './cluster';
import { seedHotWallet } from './ledger';
import { end, startScript, waitFor } from './programs';
import type { Row } from './row';
import { seedKeys } from './seed';

const SECONDS = 6;
const ROUNDS = 2;
const IN_FLIGHT = 64;

/**
 * Cycles a second through the HTTP routes of one API process: batches against a transaction for
 * each call.
 */
export async function httpLedgerRow(cluster: BenchCluster): Promise<Row> {
  const url = await cluster.database('bench_http_ledger');
  const { org_id } = await seedHotWallet(url);
  const { control_plane } = await seedKeys(url, org_id);
  const rate = { on: 0, off: 0 };
  for (let round = 0; round < ROUNDS; round += 1) {
    for (const BATCHES of ['off', 'on'] as const) {
      const [port = 0] = await freePorts(1);
      const api = startScript('bench/processes/api-process.ts', {
        DATABASE_URL: url,
        BATCHES,
        PORT: String(port),
      });
      const address = `http://127.0.0.1:${port}`;
      await waitFor(`${address}/readyz`, true);
      await cycles(address, control_plane, org_id, 2);
      rate[BATCHES] += (await cycles(address, control_plane, org_id, SECONDS)) / SECONDS / ROUNDS;
      await end(api);
    }
  }
  const ratio = rate.on / rate.off;
  return {
    measure: 'the same through HTTP, one API process, 64 in flight',
    figure: `${Math.round(rate.on)}/s against ${Math.round(rate.off)}/s without batches`,
    ratio,
    bar: 'at least 4 x',
    isMet: ratio >= 4,
  };
}

/** Whole cycles in so many seconds; throws on any answer that is not 200. */
async function cycles(
  address: string,
  key: string,
  org_id: string,
  seconds: number,
): Promise<number> {
  const pool = new Pool(address, { connections: IN_FLIGHT });
  const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
  const post = async (path: string, body: object): Promise<Record<string, unknown>> => {
    const answer = await pool.request({
      method: 'POST',
      path,
      headers,
      body: JSON.stringify(body),
    });
    const text = await answer.body.text();
    if (answer.statusCode !== 200)
      throw new Error(`${path} answered ${answer.statusCode}: ${text}`);
    return JSON.parse(text);
  };
  const finish_at = performance.now() + seconds * 1_000;
  let done = 0;
  const worker = async () => {
    while (performance.now() < finish_at) {
      const { reservation_id } = await post('/v1/gateway/wallets/reserve', {
        org_id,
        provider: 'openai',
        model: 'gpt-4o-mini',
        estimated_prompt_tokens: 10,
        max_completion_tokens: 100,
        request_body_hash: `sha256:${'0'.repeat(64)}`,
      });
      const usage = { prompt_tokens: 10, completion_tokens: 5 };
      await post('/v1/gateway/wallets/settle', {
        org_id,
        reservation_id,
        outcome: 'completed',
        usage,
      });
      done += 1;
    }
  };
  await Promise.all(Array.from({ length: IN_FLIGHT }, worker));
  await pool.close();
  return done;
}
