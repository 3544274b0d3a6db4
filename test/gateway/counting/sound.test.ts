import { createServer, type Server } from 'node:http';
import { countTokens } from 'gpt-tokenizer/encoding/o200k_base';
import OpenAI, { toFile } from 'openai';
import { openSound, type Sound } from '../../../gateway/counting/sound';
import { listen } from '../../../runtime/listen';
import { lastCharge, openWorld, type World } from '../../support/gateway';

// At 0.006 a minute.
const SECOND = 100_000n;

let world: World;
let sound: Sound;
let upstream: Server;
let client: OpenAI;
/** What the upstream answers to any form. */
let answer: string | object;

beforeAll(async () => {
  sound = openSound();
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
  sound.close();
  await world.close();
  upstream.closeAllConnections();
  upstream.close();
});

function chunk(name: string, bytes: number, told = bytes): Buffer {
  const head = Buffer.alloc(8);
  head.write(name);
  head.writeUInt32LE(told, 4);
  return Buffer.concat([head, Buffer.alloc(bytes, 128)]);
}

/** Of 8,000 samples of a byte a second. */
function wav(...chunks: Buffer[]): Buffer {
  const head = Buffer.alloc(36);
  head.write('RIFF');
  head.writeUInt32LE(28 + Buffer.concat(chunks).length, 4);
  head.write('WAVEfmt ', 8);
  head.writeUInt32LE(16, 16);
  head.writeUInt16LE(1, 20);
  head.writeUInt16LE(1, 22);
  head.writeUInt32LE(8_000, 24);
  head.writeUInt32LE(8_000, 28);
  head.writeUInt16LE(1, 32);
  head.writeUInt16LE(8, 34);
  return Buffer.concat([head, ...chunks]);
}

const rates: Record<number, [code: number, bytes: number]> = {
  32: [1, 104],
  128: [9, 417],
  320: [14, 1_044],
};

/** Frames of 1,152 samples, 44,100 of them a second. */
function mp3(count: number, kilobits: number): Buffer {
  const [code, bytes] = rates[kilobits] ?? [0, 0];
  const frame = Buffer.alloc(bytes);
  frame.set([0xff, 0xfb, code << 4, 0x64]);
  return Buffer.concat(Array.from({ length: count }, () => frame));
}

/** The first frame of a file that says what the others are. */
function summary(frames: number, bytes: number): Buffer {
  const frame = mp3(1, 128);
  frame.write('Xing', 36);
  frame.writeUInt32BE(3, 40);
  frame.writeUInt32BE(frames, 44);
  frame.writeUInt32BE(bytes, 48);
  return frame;
}

const UNKNOWN = Buffer.from('01ffffffffffffff', 'hex');

function element(id: string, content: Buffer, size?: Buffer): Buffer {
  const length = Buffer.alloc(8);
  length.writeBigUInt64BE(BigInt(content.length));
  length.writeUInt8(1, 0);
  return Buffer.concat([Buffer.from(id, 'hex'), size ?? length, content]);
}

function number(id: string, value: number): Buffer {
  const content = Buffer.alloc(4);
  content.writeUInt32BE(value);
  return element(id, content);
}

/** Clusters of a second, with blocks at its start, middle and end. */
function webm(seconds: number, size?: Buffer, told?: number): Buffer {
  const blocks = [0, 500, 980].map((time) => {
    const block = Buffer.alloc(14);
    block.set([0x81, time >> 8, time & 255, 0x80]);
    return element('a3', block);
  });
  const clusters = Array.from({ length: seconds }, (_, second) =>
    element('1f43b675', Buffer.concat([number('e7', second * 1_000), ...blocks]), size),
  );
  const track = [number('d7', 1), number('83', 2), element('86', Buffer.from('A_OPUS'))];
  const duration = Buffer.alloc(8);
  duration.writeDoubleBE((told ?? 0) * 1_000);
  const info = [number('2ad7b1', 1_000_000), ...(told ? [element('4489', duration)] : [])];
  const head = [
    element('1549a966', Buffer.concat(info)),
    element('1654ae6b', element('ae', Buffer.concat(track))),
  ];
  return Buffer.concat([
    element('1a45dfa3', element('4282', Buffer.from('webm'))),
    element('18538067', Buffer.concat([...head, ...clusters]), size),
  ]);
}

/** Frames of 4,096 samples, 48,000 of them a second, behind a head that tells this many samples. */
function flac(frames: number, told: number): Buffer {
  const head = Buffer.alloc(42);
  head.write('fLaC');
  head.set([0x80, 0, 0, 34, 0x10, 0, 0x10, 0], 4);
  head.writeUIntBE((48_000 << 4) | 0, 18, 3);
  head.set([0xf0], 21);
  head.writeUInt32BE(told, 22);
  const blocks = Array.from({ length: frames }, (_, number) => {
    const place = number < 128 ? [number] : [0xc0 | (number >> 6), 0x80 | (number & 63)];
    const start = Buffer.from([0xff, 0xf8, 0xc0, 0x08, ...place]);
    return Buffer.concat([start, Buffer.from([crc8(start)]), Buffer.alloc(3_000, 0xff)]);
  });
  return Buffer.concat([head, ...blocks]);
}

function crc8(bytes: Buffer): number {
  let sum = 0;
  for (const byte of bytes) {
    sum ^= byte;
    for (let bit = 0; bit < 8; bit += 1) sum = sum & 128 ? ((sum << 1) ^ 0x107) & 255 : sum << 1;
  }
  return sum;
}

const FRAME = 1_152 / 44_100;
const inside = chunk('data', 800_000);

test.each<[string, string, Buffer, number]>([
  ['a WAV that says how long it is', 'a.wav', wav(inside), 100],
  ['a WAV with words beside its samples', 'a.wav', wav(inside, chunk('LIST', 40_000)), 100],
  ['a WAV that says it is shorter', 'a.wav', wav(chunk('data', 800_000, 8)), 100],
  ['a WAV that does not say', 'a.wav', wav(chunk('data', 800_000, 0)), 100],
  ['a WAV of an endless stream', 'a.wav', wav(chunk('data', 800_000, 0xffffffff)), 100],
  ['a WAV whose samples come in two pieces', 'a.wav', wav(inside, inside), 200],
  ['an MP3 of one rate', 'a.mp3', mp3(4_000, 128), 4_000 * FRAME],
  [
    'an MP3 that begins at another rate',
    'a.mp3',
    Buffer.concat([mp3(10, 320), mp3(4_000, 32)]),
    4_010 * FRAME,
  ],
  [
    'an MP3 whose first frame says that it is the only one',
    'a.mp3',
    Buffer.concat([summary(1, 417), mp3(4_000, 128)]),
    4_001 * FRAME,
  ],
  [
    'an MP3 whose first frame speaks of far more',
    'a.mp3',
    Buffer.concat([summary(400_000, 166_800_000), mp3(4_000, 128)]),
    4_001 * FRAME,
  ],
  ['a WebM without its length', 'a.webm', webm(60), 60],
  ['a WebM as browsers record it, of unknown sizes', 'a.webm', webm(60, UNKNOWN), 60],
  ['a WebM that says it is shorter', 'a.webm', webm(60, undefined, 1), 60],
  ['a FLAC without its length', 'a.flac', flac(600, 0), (600 * 4_096) / 48_000],
  ['a FLAC of one frame', 'a.flac', flac(1, 0), 4_096 / 48_000],
  ['a FLAC that says it is shorter', 'a.flac', flac(600, 4_096), (600 * 4_096) / 48_000],
])('%s lasts as long as what lies in it', async (_, name, bytes, seconds) => {
  const lasts = await sound.lasts({ bytes: new Uint8Array(bytes), type: '', name });
  expect(Math.abs(lasts - seconds)).toBeLessThan(0.3);
});

test.each<[string, Buffer]>([
  ['of one byte', Buffer.from([7])],
  ['without a sample', wav(chunk('data', 0))],
  ['of one frame', mp3(1, 128)],
  ['of no block', webm(0, UNKNOWN)],
])('a file %s lasts a tenth of a second at least', async (_, bytes) => {
  const lasts = await sound.lasts({ bytes: new Uint8Array(bytes), type: '', name: 'a' });
  expect(lasts).toBeGreaterThanOrEqual(0.1);
  expect(lasts).toBeLessThan(0.11);
});

test.each<[string, Buffer]>([
  ['a WebM of nothing but empty elements', Buffer.concat([webm(1), Buffer.alloc(4_000_000, 0x81)])],
  ['an MP3 of nothing but beginnings', Buffer.concat([mp3(20, 128), Buffer.alloc(4e6, 0xff)])],
])('%s lasts as long as its size allows at least', async (_, bytes) => {
  const lasts = await sound.lasts({ bytes: new Uint8Array(bytes), type: '', name: 'a' });
  expect(lasts).toBeGreaterThanOrEqual(bytes.length / 192_000);
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
