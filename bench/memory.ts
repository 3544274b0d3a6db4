import { setTimeout as sleep } from 'node:timers/promises';
import type { BenchCluster } from './cluster';
import { residentBytes } from './cpu';
import { chatBody, sendMany, streamBody } from './load';
import type { Row } from './row';
import { type Stack, startStack } from './stack';

const STREAMS = 10_000;
const CALLS = 50_000;
const IN_FLIGHT = 64;
const SAMPLES = 30;
const SETTLING_MS = 2_000;
const MB = 1_048_576;

/** Resident memory over 10,000 streams and 50,000 calls with everything on. */
export async function memoryRows(cluster: BenchCluster): Promise<Row[]> {
  const stack = await startStack(cluster, true);
  try {
    return [await streamsRow(stack), await sumRow(stack)];
  } finally {
    await stack.stop();
  }
}

/** Of a gateway while streams pass through it: bounded, and no longer growing. */
async function streamsRow(stack: Stack): Promise<Row> {
  const samples: number[] = [];
  for (let n = 0; n < SAMPLES; n += 1) {
    await send(stack, streamBody, STREAMS / SAMPLES);
    samples.push(residentBytes(stack.gateway.pid) / MB);
  }
  const third = SAMPLES / 3;
  const middle = mean(samples.slice(third, 2 * third));
  const last = mean(samples.slice(2 * third));
  const most = Math.max(...samples);
  return {
    measure: 'memory of a gateway over 10,000 streams, 64 in flight',
    figure: `at most ${most.toFixed(0)} MB; last third ${last.toFixed(0)} MB, middle third ${middle.toFixed(0)} MB`,
    ratio: last / middle,
    bar: 'under 220 MB; last third within 5 % of the middle one',
    isMet: most < 220 && last <= middle * 1.05,
  };
}

/** Of all processes of the product after these streams and as many calls as come in minutes. */
async function sumRow(stack: Stack): Promise<Row> {
  await send(stack, chatBody, CALLS);
  await sleep(SETTLING_MS);
  const { gateway, api, worker } = stack;
  const parts = [gateway, api, worker].map((part) => residentBytes(part?.pid ?? 0) / MB);
  const all = parts.reduce((sum, part) => sum + part, 0);
  return {
    measure: 'memory of gateway + API + worker after 10,000 streams and 50,000 calls',
    figure: `${all.toFixed(0)} MB (${parts.map((part) => part.toFixed(0)).join(' + ')})`,
    ratio: all / 300,
    bar: 'at most 300 MB',
    isMet: all <= 300,
  };
}

function send({ gateway, gateway_key }: Stack, body: string, requests: number): Promise<number> {
  return sendMany({
    url: gateway.url,
    path: '/v1/chat/completions',
    headers: { authorization: `Bearer ${gateway_key}` },
    body,
    in_flight: IN_FLIGHT,
    requests,
  });
}

function mean(numbers: number[]): number {
  return numbers.reduce((sum, number) => sum + number, 0) / numbers.length;
}
