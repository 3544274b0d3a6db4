import { openConverseStream, openEventStream } from '../../gateway/providers/event-stream';
import type { Unframer } from '../../gateway/providers/kind';
import { AwsSigner } from '../../gateway/upstreams/credentials/aws';
import { chunkFrame, eventFrame } from '../../sandbox/providers/frames';
import type { Row } from '../row';

// Short ones, so that the quietest is one in which nothing else ran.
const ROUNDS = 200;
const CALLS = 20;
const FRAMES = 400;
const SIGNED_BAR_MS = 0.15;
const FRAME_BAR_US = 5;

const body = Buffer.from(
  JSON.stringify({ messages: [{ role: 'user', content: 'word '.repeat(310) }], max_tokens: 64 }),
);
const path = '/model/eu.anthropic.claude-opus-5-5-v1%3A0/invoke';
const delta = { type: 'text_delta', text: 'word ' };

/** What a kind with a wire of its own adds to a call: a signature, and each frame of a stream. */
export async function providerRows(): Promise<Row[]> {
  return [await signedRow(), frameRow()];
}

/** A bearer's header is made once, so that all of a signature is added. */
async function signedRow(): Promise<Row> {
  Object.assign(process.env, { BENCH_AWS_ID: 'AKIABENCH', BENCH_AWS_SECRET: 'a-secret' });
  const auth = { access_key_id_env: 'BENCH_AWS_ID', secret_access_key_env: 'BENCH_AWS_SECRET' };
  const host = 'bedrock-runtime.eu-west-1.amazonaws.com';
  const signer = new AwsSigner({ auth, region: 'eu-west-1', service: 'bedrock', host });
  const ms: number[] = [];
  for (let round = 0; round < ROUNDS; round += 1) {
    const started = performance.now();
    for (let n = 0; n < CALLS; n += 1) await signer.headersFor({ method: 'POST', path, body });
    ms.push((performance.now() - started) / CALLS);
  }
  const added = Math.min(...ms);
  return {
    measure: `a signed call of ${body.length} bytes: what it adds to one with a key`,
    figure: `${added.toFixed(3)} ms`,
    bar: `at most ${SIGNED_BAR_MS} ms`,
    isMet: added <= SIGNED_BAR_MS,
  };
}

function frameRow(): Row {
  const message = chunkFrame({ type: 'content_block_delta', index: 0, delta });
  const said = { delta: { text: delta.text }, contentBlockIndex: 0 };
  const converse = eventFrame({ contentBlockDelta: said });
  const messages = perFrame(openEventStream, message);
  const converses = perFrame(openConverseStream, converse);
  return {
    measure: "a frame of Bedrock's event stream, with its checksums, as an event of text",
    figure: `${messages.toFixed(1)} µs of Messages, ${converses.toFixed(1)} µs of Converse`,
    bar: `at most ${FRAME_BAR_US} µs`,
    isMet: Math.max(messages, converses) <= FRAME_BAR_US,
  };
}

/** Microseconds of a frame that comes alone, in the quietest round. */
function perFrame(open: () => Unframer, frame: Buffer): number {
  const times: number[] = [];
  for (let round = 0; round < ROUNDS; round += 1) {
    const unframer = open();
    const started = performance.now();
    for (let n = 0; n < FRAMES; n += 1) unframer.push(frame);
    times.push(((performance.now() - started) * 1_000) / FRAMES);
  }
  return Math.min(...times);
}
