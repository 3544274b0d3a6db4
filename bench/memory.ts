import type { BenchCluster } from './cluster';
import { residentBytes } from './cpu';
import { sendMany, streamBody } from './load';
import type { Row } from './row';
import { startStack } from './stack';

const STREAMS = 10_000;
const IN_FLIGHT = 64;
const SAMPLES = 30;
const MB = 1_048_576;

/**
 * Resident memory of a gateway while 10,000 streams pass through it: bounded, and no longer
 * growing.
 */
export async function memoryRow(cluster: BenchCluster): Promise<Row> {
  const stack = await startStack(cluster);
  try {
    const samples: number[] = [];
    const load = {
      url: stack.gateway.url,
      path: '/v1/chat/completions',
      headers: { authorization: `Bearer ${stack.gateway_key}` },
      body: streamBody,
      in_flight: IN_FLIGHT,
      requests: STREAMS / SAMPLES,
    };
    for (let n = 0; n < SAMPLES; n += 1) {
      await sendMany(load);
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
  } finally {
    await stack.stop();
  }
}

function mean(numbers: number[]): number {
  return numbers.reduce((sum, number) => sum + number, 0) / numbers.length;
}
