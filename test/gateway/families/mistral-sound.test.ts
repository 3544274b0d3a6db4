import { blankPrice } from '../../../domain/ledger/pricing';
import { nothing_measured } from '../../../gateway/families/reader';
import { transcriptionReader } from '../../../gateway/families/transcriptions';
import { chat, gatewayKey, lastCharge, openWorld, post, type World } from '../../support/gateway';
import { makePrice } from '../../support/ledger';
import { openScripted, type Scripted } from '../../support/upstream';
import { encode, type Part, wav } from './sound-forms';

// Mistral writes down sound in events, and tells of it in members, of its own (docs.mistral.ai/api,
// audio.transcriptions).

let world: World;
let upstream: Scripted;
let url: string;

const PER_SECOND = 50_000n;
// Bytes that are a text as well.
const silence = wav().fill(0, 44);

beforeAll(async () => {
  world = await openWorld();
  upstream = await openScripted();
  const prices = {
    'by-minute': { per_minute: 0.003 },
    'by-token': { input_per_1m: 1, output_per_1m: 10 },
    // Its sound is billed by its length, and the rest by tokens.
    'voxtral-small': {
      per_minute: 0.003,
      input_per_1m: 1,
      audio_input_per_1m: 0,
      output_per_1m: 10,
    },
  };
  for (const [model, price] of Object.entries(prices)) {
    const row = { ...blankPrice, tiers: null, provider: 'mistral', model };
    await makePrice(world.api.db, { ...row, ...price });
  }
  const target = { id: 'mistral', kind: 'mistral', base_url: `${upstream.url}/v1` };
  const targets = [
    { ...target, auth: { key_env: 'TEST_MODELS_KEY' }, models: Object.keys(prices) },
  ];
  ({ url } = await world.openGateway({ settings: { providers: { targets } } }));
});
afterAll(async () => {
  await world.close();
  await upstream.close();
});

const event = (type: string, more: object) =>
  `event: ${type}\ndata: ${JSON.stringify({ type, ...more })}\n\n`;
const text = 'Hello there.';
// As its API has answered twelve seconds.
const usage = {
  prompt_audio_seconds: 12,
  prompt_tokens: 3,
  total_tokens: 419,
  completion_tokens: 41,
  prompt_tokens_details: { cached_tokens: 0, audio_tokens: 375 },
};
const written = (told: object) => ({ model: 'm', text, language: null, segments: [], ...told });
const streamed = (told: object) => [
  event('transcription.language', { audio_language: 'en' }),
  event('transcription.text.delta', { text: 'Hello ' }),
  event('transcription.text.delta', { text: 'there.' }),
  event('transcription.done', written(told)),
];
const segmented = (told: object) => [
  event('transcription.segment', { text: 'Hello ', start: 0, end: 1 }),
  event('transcription.segment', { text: 'there.', start: 1, end: 12 }),
  event('transcription.done', written(told)),
];

async function transcribe(model: string, stream: boolean) {
  const key = await gatewayKey(world.api, world.org.org_id);
  const parts: Part[] = [
    { name: 'file', value: silence, file: 'silence.wav' },
    { name: 'model', value: model },
  ];
  if (stream) parts.push({ name: 'stream', value: 'true' });
  const answer = await post(
    `${url}/v1/audio/transcriptions`,
    key,
    encode(parts).toString('latin1'),
    { 'content-type': 'multipart/form-data; boundary=b0undary' },
  );
  return { ...answer, charge: await lastCharge(world, world.org.org_id) };
}

test.each([
  ['by-minute', usage, 12n * PER_SECOND],
  ['by-minute', { prompt_audio_seconds: 12 }, 12n * PER_SECOND],
  ['by-minute', { prompt_audio_seconds: 12, prompt_tokens: 3, total_tokens: 3 }, 12n * PER_SECOND],
  ['by-token', usage, 378n * 1_000n + 41n * 10_000n],
])(
  '%s, told as %j, a transcript is charged alike whole and in events, which pass untouched',
  async (model, told, nanos) => {
    upstream.play([JSON.stringify(written({ usage: told }))], 'application/json');
    expect((await transcribe(model, false)).charge).toMatchObject({
      ...{ outcome: 'completed', usage_source: 'upstream', actual_cost_nanos: nanos },
    });
    for (const pieces of [streamed({ usage: told }), segmented({ usage: told })]) {
      upstream.play(pieces);
      const { status, text: sent, charge } = await transcribe(model, true);
      expect([status, sent, upstream.arrived.length]).toEqual([200, pieces.join(''), 1]);
      expect(charge).toMatchObject({
        ...{ outcome: 'completed', usage_source: 'upstream', actual_cost_nanos: nanos },
      });
    }
  },
);

test('without usage its stream is charged by what was sent and written, once', async () => {
  for (const told of [{}, { usage: null }, { usage: { prompt_audio_seconds: null } }]) {
    upstream.play(streamed(told));
    const { status, charge } = await transcribe('by-minute', true);
    expect([status, upstream.arrived.length]).toEqual([200, 1]);
    expect(charge).toMatchObject({
      ...{ usage_source: 'estimated', actual_cost_nanos: 12n * PER_SECOND },
    });
  }
});

test('tokens alone, of a model that is priced by its length alone, are charged for the length', async () => {
  const told = {
    usage: { type: 'tokens', input_tokens: 120, output_tokens: 6, total_tokens: 126 },
  };
  upstream.play([JSON.stringify({ text, ...told })], 'application/json');
  expect((await transcribe('by-minute', false)).charge).toMatchObject({
    ...{ usage_source: 'estimated', actual_cost_nanos: 12n * PER_SECOND },
  });
});

test('a total alone beside the length counts for nothing where the length has the price', async () => {
  const told = { usage: { prompt_audio_seconds: 12, total_tokens: 419 } };
  upstream.play(streamed(told));
  const { charge } = await transcribe('by-minute', true);
  expect(charge.actual_cost_nanos).toBe(12n * PER_SECOND);
});

test('a chat that has heard sound is charged for its length where that has a price', async () => {
  const key = await gatewayKey(world.api, world.org.org_id);
  const answer = { choices: [{ index: 0, message: { content: text }, finish_reason: 'stop' }] };
  const sound = { type: 'input_audio', input_audio: { data: 'A'.repeat(64_000), format: 'mp3' } };
  const body = { ...chat('Hi', { model: 'voxtral-small' }) };
  const messages = [{ role: 'user', content: [sound] }];
  const ask = async (told: object) => {
    upstream.play([JSON.stringify({ ...answer, usage: told })], 'application/json');
    await post(`${url}/v1/chat/completions`, key, { ...body, messages });
    return lastCharge(world, world.org.org_id);
  };
  expect((await ask(usage)).actual_cost_nanos).toBe(3n * 1_000n + 41n * 10_000n + 12n * PER_SECOND);
  // No sound is longer than its bytes can hold.
  const { usage: charged } = await ask({ ...usage, prompt_audio_seconds: 1_000_000 });
  expect(charged.seconds).toBeLessThan(250);
});

test("of a stream that breaks, words that segments repeat count once, OpenAI's too", () => {
  const read = (events: object[]) => {
    const found = { ...nothing_measured };
    const readEvent = transcriptionReader.openStream(found, 1);
    for (const one of events) readEvent(one as Record<string, unknown>);
    return found;
  };
  for (const [delta, segment, member] of [
    ['transcription.text.delta', 'transcription.segment', 'text'],
    ['transcript.text.delta', 'transcript.text.segment', 'delta'],
  ] as const) {
    const both = [
      { type: delta, [member]: 'Hello' },
      { type: segment, text: 'Hello', start: 0, end: 1 },
    ];
    const once = { text: 'Hello', has_output: true, is_done: false };
    expect(read(both)).toMatchObject(once);
    expect(read(both.slice(1))).toMatchObject(once);
  }
});
