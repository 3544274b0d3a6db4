import { countTokens } from 'gpt-tokenizer/encoding/o200k_base';
import OpenAI from 'openai';
import { request } from 'undici';
import { blankPrice } from '../../../domain/ledger/pricing';
import { nothing_measured } from '../../../gateway/families/reader';
import { secondsIn, speechReader } from '../../../gateway/families/speech';
import { arrivals, lastCharge, openWorld, post, type World } from '../../support/gateway';
import { makePrice } from '../../support/ledger';
import { until } from '../../support/until';

let world: World;
let client: OpenAI;
const path = '/v1/audio/speech';
const model = 'gpt-4o-mini-tts';
const voice = 'alloy';
const words = 'The quick brown fox jumps over the lazy dog. '.repeat(4);
const tokens = countTokens(words);
// A second at 0.015 a minute.
const SECOND = 250_000n;

beforeAll(async () => {
  world = await openWorld();
  const price = { model: 'gpt-4o', per_1m_characters: 15, input_per_1m: 0, output_per_1m: 0 };
  await makePrice(world.api.db, { ...blankPrice, tiers: null, ...price, provider: 'spoken' });
  client = new OpenAI({ baseURL: `${world.url}/v1`, apiKey: world.key, maxRetries: 0 });
});

afterAll(() => world.close());

const last = () => lastCharge(world, world.org.org_id);

function speak(more: object = {}, url = world.url) {
  return post(url + path, world.key, { model, voice, input: words, ...more });
}

test('the sound arrives byte for byte with its type, and is charged by its text and how long it may take', async () => {
  const answer = await client.audio.speech.create({ model, voice, input: words });
  expect(answer.headers.get('content-type')).toBe('audio/mpeg');
  const bytes = Buffer.from(await answer.arrayBuffer());
  const direct = await post(world.models_url + path, 'direct', { model, voice, input: words });
  expect(bytes.equals(direct.bytes)).toBe(true);
  const seconds = Math.ceil(tokens / 3);
  const cost = BigInt(tokens) * 600n + BigInt(seconds) * SECOND;
  const charge = await last();
  expect(charge).toMatchObject({
    status: 'settled',
    usage_source: 'estimated',
    held_nanos: cost,
    actual_cost_nanos: cost,
    usage: { prompt_tokens: tokens, characters: words.length, seconds, completion_tokens: 0 },
  });
});

test.each(['pcm', 'wav'])(
  'of %s the size tells how long it is: that is charged',
  async (response_format) => {
    const { bytes } = await speak({ response_format });
    const { usage, actual_cost_nanos, held_nanos } = await last();
    expect(usage.seconds).toBe(bytes.length / 48_000);
    expect(actual_cost_nanos).toBe(
      BigInt(tokens) * 600n + BigInt(Math.round((bytes.length / 48_000) * Number(SECOND))),
    );
    expect(actual_cost_nanos).toBeLessThan(held_nanos);
  },
);

test('a stream of events is charged by the tokens of sound that its last one tells', async () => {
  const { text } = await speak({ stream_format: 'sse' });
  expect(text).toContain('"speech.audio.delta"');
  const usage = JSON.parse(text.split('data: ').at(-1) ?? '').usage;
  const charge = await last();
  expect(charge).toMatchObject({
    status: 'settled',
    usage_source: 'upstream',
    usage: { audio_output_tokens: usage.output_tokens, seconds: 0, characters: words.length },
  });
  expect(charge.actual_cost_nanos).toBe(
    BigInt(usage.input_tokens) * 600n + BigInt(usage.output_tokens) * 12_000n,
  );
});

test('the length of sound in events is that of the sound, not of their text', () => {
  const found = { ...nothing_measured };
  const read = speechReader.openStream(found, 1);
  const sound = Buffer.alloc(48_000);
  for (const part of [sound.subarray(0, 1_001), sound.subarray(1_001)])
    read({ type: 'speech.audio.delta', audio: part.toString('base64') });
  expect(secondsIn({ response_format: 'pcm' }, found.sound_bytes ?? 0)).toBe(1);
});

test.each([
  [96_000, 2],
  [16_000, 12],
  [4_000_000_000, 4],
])('a WAV of %d bytes a second is as long as its head says', (rate, seconds) => {
  const head = Buffer.alloc(44);
  head.write('RIFF....WAVEfmt ', 'latin1');
  head.writeUInt32LE(rate, 28);
  expect(secondsIn({ response_format: 'wav' }, 192_000, head)).toBe(seconds);
  expect(secondsIn({ response_format: 'wav' }, 192_000)).toBe(4);
  expect(secondsIn({ response_format: 'pcm' }, 192_000, head)).toBe(4);
});

test('a price by characters counts characters, not bytes or halves of them', async () => {
  const target = { provider: 'spoken' };
  const { url } = await world.openGateway({ target });
  const input = 'Gr\u00fc\u00dfe \u{1f44b}';
  await speak({ model: 'gpt-4o', input }, url);
  const charge = await last();
  expect(charge.usage.characters).toBe(7);
  expect(charge).toMatchObject({ held_nanos: 7n * 15_000n, actual_cost_nanos: 7n * 15_000n });
});

test('slow speech is held for longer', async () => {
  await speak({ speed: 0.5 });
  expect((await last()).usage.seconds).toBe(Math.ceil((tokens / 3) * 2));
});

test.each(['', 'pcm'])(
  'sound that is cut (%s) breaks at the client too, and is not free',
  async (response_format) => {
    const more = response_format ? { response_format } : {};
    await expect(speak({ input: `${words} [[fault:cut]]`, ...more })).rejects.toThrow();
    const charge = await last();
    expect(charge).toMatchObject({ status: 'settled', usage_source: 'estimated' });
    expect(charge.actual_cost_nanos).toBe(charge.held_nanos);
  },
);

test.each(['error status=500', 'reset', 'html'])(
  'an upstream that fails (%s) is not paid',
  async (fault) => {
    expect((await speak({ input: `${words} [[fault:${fault}]]` })).status).toBeGreaterThanOrEqual(
      500,
    );
    expect(await last()).toMatchObject({ status: 'released', actual_cost_nanos: 0n });
  },
);

test.each(['end after=2', 'no-usage'])(
  'a stream of events without its usage (%s) is not free',
  async (fault) => {
    const { text } = await speak({ input: `${words} [[fault:${fault}]]`, stream_format: 'sse' });
    expect(text.includes('upstream_failed')).toBe(fault.startsWith('end'));
    const charge = await last();
    expect(charge).toMatchObject({ status: 'settled', usage_source: 'estimated' });
    expect(charge.actual_cost_nanos).toBe(charge.held_nanos);
  },
);

test('a client that leaves early pays, and the upstream is let go', async () => {
  const answer = await request(world.url + path, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${world.key}` },
    body: JSON.stringify({ model, voice, input: words.repeat(200), response_format: 'pcm' }),
  });
  answer.body.on('error', () => undefined);
  answer.body.destroy();
  const charge = await last();
  expect(charge).toMatchObject({ status: 'settled', usage_source: 'estimated' });
  expect(charge.actual_cost_nanos).toBeGreaterThan(0n);
  await until(async () => Boolean((await arrivals(world.models_url)).at(-1)?.closed_early));
});
