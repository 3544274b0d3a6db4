import { setTimeout as sleep } from 'node:timers/promises';
import { Agent, request } from 'undici';
import { newId } from '../domain/ids';
import * as organizations from '../domain/people/organizations';
import { type Db, many, one } from '../domain/sql';
import { openDatabase } from '../runtime/database';
import { makeKey } from '../test/support/keys';
import type { BenchCluster } from './cluster';
import { chatBody, firstBytes } from './load';
import { percentile, type Row } from './row';
import { type Stack, startStack } from './stack';

const PAST_EVENTS = 200_000;
const STREAMS = 50;
const KEYS = 8;
const SEARCHERS = 4;
const EVENTS_A_BATCH = 250;
const BATCH_PAUSE_MS = 250;
const ROUNDS = 3;
const REQUESTS = 300;
/** The streams are open by then, and the load runs. */
const SETTLING_MS = 2_000;

/**
 * What a call of one organization waits for while another one has a full stock of events, fifty
 * streams that show none of them and resume from the oldest, searches that find nothing, and a
 * thousand new events a second; against the same call alone.
 */
export async function neighbourRow(cluster: BenchCluster): Promise<Row> {
  const stack = await startStack(cluster);
  const db = openDatabase(stack.database_url, 4);
  try {
    const neighbour = await makeNeighbour(db);
    await calls(stack);
    const times = { alone: [] as number[], beside: [] as number[] };
    for (let round = 0; round < ROUNDS; round += 1) {
      times.alone.push(...(await calls(stack)));
      const stop = await makeNoise(stack, neighbour);
      times.beside.push(...(await calls(stack)));
      await stop();
    }
    const p99 = { alone: percentile(times.alone, 0.99), beside: percentile(times.beside, 0.99) };
    const ratio = p99.beside / p99.alone;
    return {
      measure: `a stranger's priced call beside ${STREAMS} quiet streams and a noisy neighbour, p99`,
      figure: `${p99.beside.toFixed(1)} ms against ${p99.alone.toFixed(1)} ms alone`,
      ratio,
      bar: 'within 1.5 x',
      isMet: ratio <= 1.5,
    };
  } finally {
    await db.destroy();
    await stack.stop();
  }
}

interface Neighbour {
  org_id: string;
  keys: string[];
  oldest: string;
}

async function makeNeighbour(db: Db): Promise<Neighbour> {
  const { id: org_id } = await organizations.create(db, { name: 'Noisy', currency: 'USD' });
  await many(
    db,
    `insert into events (id, created_at, org_id, type, payload)
     select i.id, id_time(i.id), :org_id, 'request.completed', '{"tokens": 1}'
     from generate_series(1, ${PAST_EVENTS}) as n cross join lateral (select new_id('evt') as id, n) as i`,
    { org_id },
  );
  const { id: oldest } = await one<{ id: string }>(
    db,
    'select min(id) as id from events where org_id = :org_id',
    { org_id },
  );
  const keys: string[] = [];
  for (let n = 0; n < KEYS; n += 1)
    keys.push(await makeKey(db, org_id, { scopes: ['events:read', 'org:billing'] }));
  return { org_id, keys, oldest };
}

function calls(stack: Stack): Promise<number[]> {
  return firstBytes({
    url: stack.gateway.url,
    path: '/v1/chat/completions',
    headers: { authorization: `Bearer ${stack.gateway_key}` },
    body: chatBody,
    requests: REQUESTS,
  });
}

/** Returns how to end it. */
async function makeNoise(stack: Stack, neighbour: Neighbour): Promise<() => Promise<void>> {
  const dispatcher = new Agent({ connections: STREAMS + SEARCHERS, bodyTimeout: 0 });
  const streams = await openStreams(stack, neighbour, dispatcher);
  if (streams < STREAMS) throw new Error(`Only ${streams} streams were opened.`);
  let is_over = false;
  const searching = Array.from({ length: SEARCHERS }, async () => {
    while (!is_over) await search(stack, neighbour, dispatcher);
  });
  const writing = (async () => {
    while (!is_over) {
      await writeEvents(stack, neighbour, dispatcher);
      await sleep(BATCH_PAUSE_MS);
    }
  })();
  await sleep(SETTLING_MS);
  return async () => {
    is_over = true;
    await Promise.all([...searching, writing]);
    await dispatcher.destroy();
  };
}

/** A key gets as many places as the others of its organization leave to it. */
async function openStreams(
  stack: Stack,
  { keys, oldest }: Neighbour,
  dispatcher: Agent,
): Promise<number> {
  let open = 0;
  for (const key of keys) {
    while (open < STREAMS) {
      const answer = await request(`${stack.api.url}/v1/events/stream?type=payment.refunded`, {
        headers: { authorization: `Bearer ${key}`, 'last-event-id': oldest },
        dispatcher,
      });
      answer.body.on('error', () => undefined);
      answer.body.resume();
      if (answer.statusCode !== 200) break;
      open += 1;
    }
  }
  return open;
}

/** As fast as the API lets this key: each of its refusals is waited out. */
async function search(stack: Stack, { keys }: Neighbour, dispatcher: Agent): Promise<void> {
  const answer = await request(`${stack.api.url}/v1/events?agent_id=nobody`, {
    headers: { authorization: `Bearer ${keys[0]}` },
    dispatcher,
  });
  await answer.body.dump();
  if (answer.statusCode === 429) await sleep(Number(answer.headers['retry-after']) * 1_000);
}

async function writeEvents(stack: Stack, { org_id }: Neighbour, dispatcher: Agent): Promise<void> {
  const items = Array.from({ length: EVENTS_A_BATCH }, () => ({
    id: newId('evt'),
    org_id,
    type: 'request.completed',
    payload: { tokens: 1 },
  }));
  const answer = await request(`${stack.api.url}/v1/gateway/events`, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      authorization: `Bearer ${stack.control_plane_key}`,
    },
    body: JSON.stringify({ items }),
    dispatcher,
  });
  await answer.body.dump();
}
