import OpenAI, { toFile } from 'openai';
import { request } from 'undici';
import {
  arrivals,
  forgetArrivals,
  gatewayKey,
  lastCharge,
  openWorld,
  type World,
} from '../../support/gateway';
import { credit, makeOrg } from '../../support/ledger';
import { encode, good, type Part, SECONDS, wav } from './sound-forms';

const path = '/v1/audio/transcriptions';
// At 0.006 a minute.
const SECOND = 100_000n;

let world: World;
let client: OpenAI;

beforeAll(async () => {
  world = await openWorld();
  client = new OpenAI({ baseURL: `${world.url}/v1`, apiKey: world.key, maxRetries: 0 });
});
beforeEach(() => forgetArrivals(world.models_url));
afterAll(() => world.close());

const last = () => lastCharge(world, world.org.org_id);

function sound(seconds = SECONDS) {
  return toFile(wav(seconds), 'silence.wav', { type: 'audio/wav' });
}

async function send(
  body: Buffer,
  {
    key = world.key,
    type = 'multipart/form-data; boundary=b0undary',
    url = world.url,
    more = {},
  } = {},
) {
  const headers = { authorization: `Bearer ${key}`, 'content-type': type, ...more };
  const answer = await request(url + path, { method: 'POST', headers, body });
  return {
    status: answer.statusCode,
    body: (await answer.body.json()) as {
      error?: { code: string; param: string | null };
      cost_ticket?: { id: string };
    },
  };
}

test('a file before its model is written, and charged by how long its provider says it is', async () => {
  const answer = await client.audio.transcriptions.create({
    file: await sound(),
    model: 'whisper-1',
  });
  expect(answer.text).toBe('This sound is silent.');
  expect(await last()).toMatchObject({
    status: 'settled',
    usage_source: 'upstream',
    held_nanos: 12n * SECOND,
    actual_cost_nanos: 12n * SECOND,
    usage: { seconds: SECONDS },
  });
  const [arrived] = await arrivals(world.models_url);
  expect(arrived?.body).toEqual({ model: 'whisper-1' });
  expect(arrived?.headers['content-type']).toContain('multipart/form-data; boundary=');
});

test.each(['text', 'srt', 'vtt'] as const)(
  'as %s no usage comes: what the file itself says is charged',
  async (response_format) => {
    const file = await sound();
    const answer = await client.audio.transcriptions.create({
      file,
      model: 'whisper-1',
      response_format,
    });
    expect(String(answer)).toContain('This sound is silent.');
    expect(await last()).toMatchObject({
      usage_source: 'estimated',
      actual_cost_nanos: 12n * SECOND,
      usage: { seconds: SECONDS },
    });
  },
);

test('a model priced by tokens is charged for sound and words, the same for JSON and stream', async () => {
  const model = 'gpt-4o-mini-transcribe';
  const whole = await client.audio.transcriptions.create({ file: await sound(), model });
  expect(whole.text).toBe('This sound is silent.');
  const charge = await last();
  expect(charge).toMatchObject({
    usage_source: 'upstream',
    usage: { prompt_tokens: 120, audio_input_tokens: 120 },
  });
  const words = charge.usage.completion_tokens ?? 0;
  expect(charge.actual_cost_nanos).toBe(120n * 3_000n + BigInt(words) * 5_000n);
  const stream = await client.audio.transcriptions.create({
    file: await sound(),
    model,
    stream: true,
  });
  let text = '';
  for await (const event of stream) if (event.type === 'transcript.text.delta') text += event.delta;
  expect(text).toBe('This sound is silent.');
  expect((await last()).actual_cost_nanos).toBe(charge.actual_cost_nanos);
});

test('a stream whose usage never comes is charged by count, above zero', async () => {
  const file = await sound();
  const model = 'gpt-4o-mini-transcribe';
  const stream = await client.audio.transcriptions.create({
    file,
    model,
    stream: true,
    prompt: '[[fault:no-usage]]',
  });
  for await (const _ of stream);
  const charge = await last();
  expect(charge.usage_source).toBe('estimated');
  expect(charge.actual_cost_nanos).toBeGreaterThan(0n);
});

test('what is no sound that can be read is held by its size', async () => {
  const file = await toFile(Buffer.alloc(80_000, 7), 'noise.bin');
  await client.audio.transcriptions.create({ file, model: 'whisper-1', response_format: 'text' });
  expect(await last()).toMatchObject({ usage: { seconds: 20 }, actual_cost_nanos: 20n * SECOND });
});

test('a file that lies about its length is charged by its size at least', async () => {
  const liar = wav(100);
  liar.writeUInt32LE(8, 40);
  const file = await toFile(liar, 'liar.wav', { type: 'audio/wav' });
  await client.audio.transcriptions.create({ file, model: 'whisper-1', response_format: 'text' });
  const { usage } = await last();
  expect(usage.seconds).toBeGreaterThanOrEqual((100 * 8_000) / 192_000);
});

test('24 MB with the model behind the file pass, above the limit is 413', async () => {
  const file = await toFile(wav(3_000), 'long.wav', { type: 'audio/wav' });
  const answer = await client.audio.transcriptions.create({ file, model: 'whisper-1' });
  expect(answer.text).toBe('This sound is silent.');
  expect((await last()).actual_cost_nanos).toBe(3_000n * SECOND);
  const settings = { audio_limit_bytes: 50_000 };
  const { url } = await world.openGateway({ settings });
  expect((await send(encode(good), { url })).status).toBe(413);
});

test('at balance zero nothing is written', async () => {
  const org = await makeOrg(world.api.db);
  const key = await gatewayKey(world.api, org.org_id);
  expect((await send(encode(good), { key })).status).toBe(402);
  expect(await arrivals(world.models_url)).toEqual([]);
});

test('a stand-in is named in the form in place of the model that the client wrote', async () => {
  const target = (id: string, models: string[], base_url = `${world.models_url}/v1`) => ({
    id,
    provider: 'openai',
    shape: 'openai',
    api_key_env: 'TEST_MODELS_KEY',
    base_url,
    models,
  });
  const targets = [
    target('away', ['whisper-1'], 'http://127.0.0.1:9/v1'),
    target('here', ['gpt-4o-mini-transcribe']),
  ];
  const fallback = { models: { 'whisper-1': ['gpt-4o-mini-transcribe'] } };
  const { url } = await world.openGateway({ settings: { providers: { targets, fallback } } });
  expect((await send(encode(good), { url })).status).toBe(200);
  const [arrived] = await arrivals(world.models_url);
  expect(arrived?.body).toEqual({ model: 'gpt-4o-mini-transcribe' });
  expect((await last()).usage).toMatchObject({ audio_input_tokens: 120 });
});

test('a form with an unknown model is refused, and reaches nobody', async () => {
  const parts = good.map((part) => (part.name === 'model' ? { ...part, value: 'nothing' } : part));
  const answer = await send(encode(parts));
  expect({ status: answer.status, param: answer.body.error?.param }).toEqual({
    status: 404,
    param: 'model',
  });
  expect(await arrivals(world.models_url)).toEqual([]);
});

test('the same form finds its ticket with another boundary, and brings it; another form does not', async () => {
  const org = await makeOrg(world.api.db);
  const key = await gatewayKey(world.api, org.org_id);
  const ask = (parts: Part[], boundary: string, more: object = {}) =>
    send(encode(parts, boundary), {
      key,
      type: `multipart/form-data; boundary=${boundary}`,
      more,
    });
  const refused = await ask(good, 'first');
  const again = await ask(good, 'second');
  expect([refused.status, again.status]).toEqual([402, 402]);
  const id = refused.body.cost_ticket?.id;
  expect([again.body.cost_ticket?.id, id]).toEqual([id, expect.any(String)]);
  await credit(world.api.db, org.org_id, org.org_wallet, 1_000_000_000n);
  const bring = { 'x-svc-cost-ticket': id };
  const [file, model] = good as [Part, Part];
  const others: Part[][] = [
    [{ ...file, value: wav(SECONDS - 1) }, model],
    [file, model, { name: 'prompt', value: 'Silence.' }],
    [{ ...file, file: 'other.wav' }, model],
  ];
  for (const parts of others) {
    const other = await ask(parts, 'first', bring);
    expect([other.status, other.body.error?.code]).toEqual([409, 'ticket_owner_differs']);
  }
  expect((await ask(good, 'third', bring)).status).toBe(200);
});
