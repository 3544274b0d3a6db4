import { randomUUID } from 'node:crypto';
import { openBatches } from '../../api/ledger/batches';
import { openDatabase } from '../../runtime/database';
import { createLog } from '../../runtime/log';
import { interactiveCycle } from '../interactive';

export interface LoadSpec {
  url: string;
  org_id: string;
  key_id: string;
  way: 'batched' | 'interactive';
  in_flight: number;
  seconds: number;
}

const usage = {
  prompt_tokens: 10,
  completion_tokens: 5,
  cached_tokens: 0,
  cache_write_tokens: 0,
  cache_write_1h_tokens: 0,
  reasoning_tokens: 0,
  audio_input_tokens: 0,
  audio_output_tokens: 0,
  characters: 0,
  seconds: 0,
  tool_calls: 0,
};
const request_body_hash = `sha256:${'0'.repeat(64)}`;

/**
 * One load process: as many whole cycles as fit into the time; answers {cycles, errors} to its
 * parent.
 */
async function main(spec: LoadSpec): Promise<void> {
  const db = openDatabase(spec.url, spec.way === 'batched' ? 4 : spec.in_flight);
  const batches = openBatches(db, createLog('bench', 'fatal'));
  const { org_id, key_id } = spec;
  const batchedCycle = async () => {
    const request_id = randomUUID();
    const hold = await batches.reserve({
      org_id,
      key_id,
      request_id,
      request_body_hash,
      provider: 'openai',
      model: 'gpt-4o-mini',
      estimated_prompt_tokens: 10,
      max_completion_tokens: 100,
    });
    if (hold.code !== null) throw new Error(hold.code);
    await batches.settle({
      org_id,
      reservation_id: hold.reservation_id as string,
      outcome: 'completed',
      usage,
    });
  };
  const cycle = spec.way === 'batched' ? batchedCycle : () => interactiveCycle(db, spec);
  const end = performance.now() + spec.seconds * 1_000;
  let cycles = 0;
  let errors = 0;
  const worker = async () => {
    while (performance.now() < end) {
      await cycle().then(
        () => {
          cycles += 1;
        },
        () => {
          errors += 1;
        },
      );
    }
  };
  await Promise.all(Array.from({ length: spec.in_flight }, worker));
  await batches.close();
  await db.destroy();
  process.send?.({ cycles, errors });
}

process.once('message', (spec: LoadSpec) => void main(spec).then(() => process.disconnect()));
