import { openSound, type Sound } from '../../../gateway/counting/sound';
import { chunk, flac, mp3, summary, UNKNOWN, wav, webm } from './files';

let sound: Sound;

beforeAll(() => {
  sound = openSound();
});
afterAll(() => sound.close());

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
  const { seconds: lasts } = await sound.lasts({ bytes: new Uint8Array(bytes), type: '', name });
  expect(Math.abs(lasts - seconds)).toBeLessThan(0.3);
});

test.each<[string, Buffer]>([
  ['of one byte', Buffer.from([7])],
  ['without a sample', wav(chunk('data', 0))],
  ['of one frame', mp3(1, 128)],
  ['of no block', webm(0, UNKNOWN)],
])('a file %s lasts a tenth of a second at least', async (_, bytes) => {
  const file = { bytes: new Uint8Array(bytes), type: '', name: 'a' };
  const { seconds: lasts } = await sound.lasts(file);
  expect(lasts).toBe(0.1);
});

test.each<[string, Buffer]>([
  ['a WebM of nothing but empty elements', Buffer.concat([webm(1), Buffer.alloc(4_000_000, 0x81)])],
  ['an MP3 of nothing but beginnings', Buffer.concat([mp3(20, 128), Buffer.alloc(4e6, 0xff)])],
])('%s lasts as long as its size allows at least', async (_, bytes) => {
  const file = { bytes: new Uint8Array(bytes), type: '', name: 'a' };
  const { seconds: lasts } = await sound.lasts(file);
  expect(lasts).toBeGreaterThanOrEqual(bytes.length / 192_000);
});

test.each<[string, Buffer, number]>([
  ['a WAV', wav(inside), 100],
  ['an MP3', mp3(4_000, 128), 4_000 * FRAME],
  ['a WebM', webm(60), webm(60).length / 500],
  ['what nobody can read', Buffer.alloc(50_000, 7), 100],
])(
  '%s lasts no longer than what was counted of it, or than its bytes allow',
  async (_, bytes, most) => {
    const { seconds, seconds_most } = await sound.lasts({
      bytes: new Uint8Array(bytes),
      type: '',
      name: 'a',
    });
    expect(seconds_most).toBeGreaterThanOrEqual(seconds);
    expect(Math.abs(seconds_most - Math.max(most, seconds))).toBeLessThan(0.3);
  },
);
