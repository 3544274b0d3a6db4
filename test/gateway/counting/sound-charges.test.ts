import { createServer, type Server } from 'node:http';
import { countTokens } from 'gpt-tokenizer/encoding/o200k_base';
import OpenAI, { toFile } from 'openai';
import { listen } from '../../../runtime/listen';
import { lastCharge, openWorld, type World } from '../../support/gateway';
import { chunk, wav } from './files';

// At 0.006 a minute.
const SECOND = 100_000n;

let world: World;
let upstream: Server;
let client: OpenAI;
/** What the upstream answers to any form. */
let answer: string | object;

beforeAll(async () => {
  world = await openWorld();
  upstream = createServer((req, res) => {
    req.resume().once('end', () => {
      const is_text = typeof answer === 'string';
      res.setHeader('content-type', is_text ? 'text/plain; charset=utf-8' : 'application/json');
      res.end(is_text ? answer : JSON.stringify(answer));
    });
  });
  const base_url = `http://127.0.0.1:${await listen(upstream, 0)}/v1`;
  const { url } = await world.openGateway({ target: { base_url } });
  client = new OpenAI({ baseURL: `${url}/v1`, apiKey: world.key, maxRetries: 0 });
});

afterAll(async () => {
  await world.close();
  upstream.closeAllConnections();
  upstream.close();
});

/** What a file of so many seconds is charged for this answer. */
async function charged(told: string | object, seconds: number, model = 'whisper-1') {
  answer = told;
  const file = await toFile(wav(chunk('data', seconds * 8_000)), 'a.wav');
  const response_format = typeof told === 'string' ? 'text' : 'json';
  await client.audio.transcriptions.create({ file, model, response_format });
  return lastCharge(world, world.org.org_id);
}

test.each<[string, object, number]>([
  ['in its usage', { text: 'Hi.', usage: { type: 'duration', seconds: 13 }, duration: 12.5 }, 13],
  ['as a number', { text: 'Hi.', duration: 12.5 }, 12.5],
  ['as a text', { text: 'Hi.', duration: '12.5' }, 12.5],
])('the seconds that a provider tells %s are charged', async (_, told, seconds) => {
  expect(await charged(told, 2)).toMatchObject({
    usage_source: 'upstream',
    usage: { seconds },
    actual_cost_nanos: BigInt(seconds * 10) * (SECOND / 10n),
  });
});

test.each<[string, object]>([
  ['none', { text: 'Hi.' }],
  ['zero', { text: 'Hi.', usage: { type: 'duration', seconds: 0 }, duration: 0 }],
  ['what is no number', { text: 'Hi.', duration: 'long' }],
])('where it tells %s, the length of the file is charged', async (_, told) => {
  expect(await charged(told, 2)).toMatchObject({
    usage_source: 'estimated',
    usage: { seconds: 2 },
    actual_cost_nanos: 2n * SECOND,
  });
});

const srt = '1\r\n00:00:00,000 --> 00:00:29,980\r\nHello there.\r\n\r\n';
const later = '2\n01:00:00.000 --> 01:00:30.000\nGood bye.\n';

test.each<[string, string, number, number]>([
  ['subtitles within the first window', srt, 2, 2],
  ['subtitles of an hour, within a window', srt + later, 240, 3_600],
  ['subtitles of an hour, as VTT', `WEBVTT\n\n${later}`, 240, 3_600],
  ['more words than can be said', 'Hello there. '.repeat(300), 8, 100],
])(
  '%s: no file is charged as shorter than what was written of it',
  async (_, told, length, seconds) => {
    expect(await charged(told, length)).toMatchObject({
      usage_source: 'estimated',
      usage: { seconds },
      actual_cost_nanos: BigInt(seconds) * SECOND,
    });
  },
);

test('a time that a model makes up is charged no further than the bytes of the file can last', async () => {
  const { usage } = await charged(srt + later, 2);
  expect(usage.seconds).toBeGreaterThan(2);
  expect(usage.seconds).toBeLessThan(40);
});

test('where words are priced, the times of subtitles are not among them', async () => {
  const { usage } = await charged(srt + later, 2, 'gpt-4o-mini-transcribe');
  expect(usage.completion_tokens).toBe(countTokens('Hello there.\nGood bye.'));
});
