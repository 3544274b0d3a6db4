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
import { makeOrg } from '../../support/ledger';

const path = '/v1/audio/transcriptions';
const SECONDS = 12;
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

/** Silence of 8,000 samples of a byte a second. */
function wav(seconds = SECONDS): Buffer {
  const head = Buffer.alloc(44);
  head.write('RIFF', 0);
  head.writeUInt32LE(36 + seconds * 8_000, 4);
  head.write('WAVEfmt ', 8);
  head.writeUInt32LE(16, 16);
  head.writeUInt16LE(1, 20);
  head.writeUInt16LE(1, 22);
  head.writeUInt32LE(8_000, 24);
  head.writeUInt32LE(8_000, 28);
  head.writeUInt16LE(1, 32);
  head.writeUInt16LE(8, 34);
  head.write('data', 36);
  head.writeUInt32LE(seconds * 8_000, 40);
  return Buffer.concat([head, Buffer.alloc(seconds * 8_000, 128)]);
}

function sound(seconds = SECONDS) {
  return toFile(wav(seconds), 'silence.wav', { type: 'audio/wav' });
}

interface Part {
  name: string;
  value: string | Buffer;
  file?: string;
}

const good: Part[] = [
  { name: 'file', value: wav(), file: 'silence.wav' },
  { name: 'model', value: 'whisper-1' },
];

function encode(parts: Part[], boundary = 'b0undary'): Buffer {
  const chunks = parts.flatMap(({ name, value, file }) => [
    Buffer.from(`--${boundary}\r\ncontent-disposition: form-data; name="${name}"`),
    Buffer.from(file ? `; filename="${file}"\r\ncontent-type: audio/wav\r\n\r\n` : '\r\n\r\n'),
    Buffer.from(value),
    Buffer.from('\r\n'),
  ]);
  return Buffer.concat([...chunks, Buffer.from(`--${boundary}--\r\n`)]);
}

async function send(
  body: Buffer,
  { key = world.key, type = 'multipart/form-data; boundary=b0undary', url = world.url } = {},
) {
  const headers = { authorization: `Bearer ${key}`, 'content-type': type };
  const answer = await request(url + path, { method: 'POST', headers, body });
  return {
    status: answer.statusCode,
    body: (await answer.body.json()) as { error?: { code: string; param: string | null } },
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

const model: Part = { name: 'model', value: 'whisper-1' };
const file: Part = { name: 'file', value: wav(1), file: 'a.wav' };

test.each<[string, Part[], number, string | null]>([
  ['no model', [file], 422, 'model'],
  ['no file', [model], 422, 'file'],
  ['an empty file', [{ name: 'file', value: '', file: 'a.wav' }, model], 422, 'file'],
  ['two models', [file, model, { name: 'model', value: 'gpt-4o' }], 400, 'model'],
  ['the model in another spelling', [file, model, { name: 'Model', value: 'x' }], 400, 'Model'],
  ['a list of models', [file, model, { name: 'model[]', value: 'gpt-4o' }], 400, 'model[]'],
  [
    'very many parts',
    [file, ...Array.from({ length: 200 }, (_, n) => ({ name: `x${n}`, value: '' })), model],
    400,
    null,
  ],
  ['two files', [file, file, model], 400, null],
  ['a file of another name', [{ ...file, name: 'sound' }, model], 400, null],
  ['an unknown model', [file, { name: 'model', value: 'nothing' }], 404, 'model'],
  [
    'an unknown format',
    [file, model, { name: 'response_format', value: 'x' }],
    422,
    'response_format',
  ],
  ['a stream that is neither', [file, model, { name: 'stream', value: '1' }], 422, 'stream'],
])('a form with %s is refused, and reaches nobody', async (_, parts, status, param) => {
  const answer = await send(encode(parts));
  expect({ status: answer.status, param: answer.body.error?.param }).toEqual({ status, param });
  expect(await arrivals(world.models_url)).toEqual([]);
});

test.each<[string, Buffer, string | undefined, number]>([
  ['cut in the middle', encode(good).subarray(0, 300), undefined, 400],
  ['of another boundary', encode(good, 'other'), undefined, 400],
  ['empty', Buffer.alloc(0), undefined, 400],
  ['without a boundary', encode(good), 'multipart/form-data', 415],
  ['of two boundaries', encode(good), 'multipart/form-data; boundary=b0undary; boundary=b', 415],
  ['that is JSON', Buffer.from('{"model":"whisper-1"}'), 'application/json', 415],
])('a body %s is refused', async (_, body, type, status) => {
  const answer = await send(body, type === undefined ? {} : { type });
  expect(answer.status).toBe(status);
  expect(await arrivals(world.models_url)).toEqual([]);
});

test('no prefix of a form passes for a form', async () => {
  const body = encode([{ ...file, value: 'RIFF' }, model]);
  for (let length = 0; length < body.length - 4; length += 7) {
    const answer = await send(body.subarray(0, length));
    expect([length, answer.status]).toEqual([length, 400]);
  }
});

test('a form with any byte changed is read or refused, and whatever is sent on is what was checked', async () => {
  const body = encode([{ ...file, value: 'RIFF and nothing more' }, model]);
  for (let at = 0; at < body.length; at += 3) {
    for (const byte of [0x00, 0x0a, 0x22, 0x2d, 0xff]) {
      const changed = Buffer.from(body);
      changed[at] = byte;
      await forgetArrivals(world.models_url);
      const { status } = await send(changed);
      expect([at, byte, [200, 400, 404, 422].includes(status)]).toEqual([at, byte, true]);
      const [arrived] = await arrivals(world.models_url);
      if (status === 200) expect(arrived?.body).toMatchObject({ model: 'whisper-1' });
      else expect(arrived).toBeUndefined();
    }
  }
});
