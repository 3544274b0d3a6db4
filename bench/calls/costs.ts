import { Pool } from 'undici';
import { chatBody, firstBytes, median } from '../load';
import type { Row } from '../row';
import type { Stack } from '../stack';
import { ownerOf } from './gateway';
import { type Installation, keyOf, middle } from './installation';

const path = '/v1/chat/completions';
const ROUNDS = 5;
const REQUESTS = 200;

/** Median milliseconds. */
interface Round {
  unasked: number;
  asked: number;
  settle: number;
}

/**
 * A priced call that is told its cost, with no other in flight: it waits for its settlement, and
 * for nothing else.
 */
export async function costRow({ stack }: Installation): Promise<Row> {
  const headers = keyOf(stack);
  const calls = (more: Record<string, string> = {}) =>
    firstBytes({
      url: stack.gateway.url,
      path,
      headers: { ...headers, ...more },
      body: chatBody,
      requests: REQUESTS,
    });
  const rounds: Round[] = [];
  for (let n = -1; n < ROUNDS; n += 1) {
    const round = {
      unasked: median(await calls()),
      asked: median(await calls({ 'x-svc-include-cost': 'true' })),
      settle: median(await settleTimes(stack, REQUESTS)),
    };
    // The first round only warms what the others need.
    if (n >= 0) rounds.push(round);
  }
  const ratioOf = ({ asked, unasked, settle }: Round) => (asked - unasked) / settle;
  const round = middle(rounds, ratioOf);
  const { asked, unasked, settle } = round;
  return {
    measure:
      'priced chat call that asks for its cost, 1 in flight, everything on: p50 beyond one that does not ask, against a settle',
    figure: `${(asked - unasked).toFixed(2)} ms (${asked.toFixed(2)} - ${unasked.toFixed(2)}) against ${settle.toFixed(2)} ms`,
    ratio: ratioOf(round),
    bar: 'at most 1 x',
    isMet: ratioOf(round) <= 1,
  };
}

/** Settlements of holds that were made before, through the same batch route as the gateway's. */
async function settleTimes(stack: Stack, requests: number): Promise<number[]> {
  const pool = new Pool(stack.api.url, { connections: 1 });
  const { org_id, ...owner } = await ownerOf(stack);
  const send = async (op: string, body: object) => {
    const answer = await pool.request({
      method: 'POST',
      path: '/v1/gateway/wallets/batch',
      headers: {
        authorization: `Bearer ${stack.control_plane_key}`,
        'content-type': 'application/json',
      },
      body: JSON.stringify({ items: [{ id: '1', op, body: { org_id, ...body } }] }),
    });
    const line = JSON.parse(await answer.body.text()) as { status: number; body: object };
    if (line.status !== 200) throw new Error(`A ${op} was answered ${JSON.stringify(line)}.`);
  };
  const times: number[] = [];
  for (let n = 0; n < requests; n += 1) {
    const request_id = `bench_cost_${performance.now()}_${n}`;
    await send('reserve', {
      ...owner,
      request_id,
      family: 'chat_completions',
      provider: 'openai',
      model: 'gpt-4o-mini',
      estimated_prompt_tokens: 180,
      max_completion_tokens: 256,
      request_body_hash: `sha256:${'0'.repeat(64)}`,
    });
    const started = performance.now();
    const usage = { prompt_tokens: 180, completion_tokens: 20 };
    await send('settle', {
      request_id,
      outcome: 'completed',
      usage,
      usage_source: 'upstream',
    });
    times.push(performance.now() - started);
  }
  await pool.close();
  return times;
}
