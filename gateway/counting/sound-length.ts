// What this file reads, the library (music-metadata) cannot: it believes the head of a file, and of
// the sixteen files that the tests make it gets four right. Recorders that stream leave the length
// out of the head, and anybody can write one; a call is charged by the length.

/** A file of sound. */
export interface SoundFile {
  bytes: Uint8Array;
  /** Its media type; empty if nobody said one. */
  type: string;
  name: string;
}

/** What the head of a sound file says of it. */
export interface SoundFormat {
  container?: string | undefined;
  codec?: string | undefined;
  duration?: number | undefined;
  sampleRate?: number | undefined;
  numberOfChannels?: number | undefined;
  bitsPerSample?: number | undefined;
}

/** How long a sound lasts, in seconds; certain if its samples or frames were counted. */
export interface SoundLength {
  seconds: number;
  is_certain: boolean;
}

/**
 * How long a sound lasts; undefined if its file does not say. The content of a file counts if it
 * can be walked, not its head. A FLAC's last frame, a WebM's scale of time and the lengths of other
 * containers are believed.
 */
export function lengthOf(file: Uint8Array, format: SoundFormat): SoundLength | undefined {
  const bytes = Buffer.from(file.buffer, file.byteOffset, file.byteLength);
  const counted = countedSeconds(bytes, format);
  if (counted > 0) return { seconds: counted, is_certain: true };
  const seconds = timedSeconds(bytes) || format.duration;
  return seconds === undefined ? undefined : { seconds, is_certain: false };
}

/** By all of its samples or frames; 0 if they cannot be counted. */
function countedSeconds(bytes: Buffer, format: SoundFormat): number {
  if (format.container === 'WAVE') return secondsOfSamples(bytes, format);
  return /^MPEG [\d.]+ Layer 3$/.test(format.codec ?? '') ? secondsOfFrames(bytes) : 0;
}

/** By the times that stand at its blocks, which is more than its head says; 0 if it has none. */
function timedSeconds(bytes: Buffer): number {
  if (bytes.length > FLAC_HEAD_BYTES && bytes.readUInt32BE(0) === FLAC)
    return secondsOfBlocks(bytes);
  return bytes.length > 4 && bytes.readUInt32BE(0) === EBML ? secondsOfClusters(bytes) : 0;
}

const WAVE_HEAD_BYTES = 44;
// Names and the like may stand beside the samples, within reason.
const SAMPLES_SHARE = 0.9;

/**
 * Nearly all bytes of a WAV are samples: decoders look for more behind what the first piece says it
 * holds.
 */
function secondsOfSamples(bytes: Buffer, format: SoundFormat): number {
  const { codec, sampleRate = 0, numberOfChannels = 0, bitsPerSample = 0, duration = 0 } = format;
  const rate = (sampleRate * numberOfChannels * bitsPerSample) / 8;
  if (codec !== 'PCM' || rate === 0) return 0;
  const most = Math.max(0, bytes.length - WAVE_HEAD_BYTES) / rate;
  return duration >= most * SAMPLES_SHARE && duration <= most ? duration : most;
}

// In kbit/s and Hz, by the version's bits of a frame's head.
const bit_rates = [
  [0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160, 0],
  [0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 0],
] as const;
const sample_rates = [
  [11_025, 12_000, 8_000, 0],
  [0, 0, 0, 0],
  [22_050, 24_000, 16_000, 0],
  [44_100, 48_000, 32_000, 0],
] as const;

interface SoundFrame {
  bytes: number;
  seconds: number;
}

/** Of MP3 the sum of its frames, whatever the first one says of the others. */
function secondsOfFrames(bytes: Buffer): number {
  let seconds = 0;
  for (let at = tagLength(bytes); ; ) {
    at = bytes.indexOf(0xff, at);
    if (at < 0 || at + 4 > bytes.length) return seconds;
    const frame = frameAt(bytes, at);
    if (frame !== undefined) seconds += frame.seconds;
    at += frame?.bytes ?? 1;
  }
}

/** Pictures and names ahead of the sound, in which bytes may look like frames. */
function tagLength(bytes: Buffer): number {
  if (bytes.length < 10 || bytes.toString('latin1', 0, 3) !== 'ID3') return 0;
  const [a = 0, b = 0, c = 0, d = 0] = bytes.subarray(6, 10);
  return 10 + ((a & 127) << 21) + ((b & 127) << 14) + ((c & 127) << 7) + (d & 127);
}

function frameAt(bytes: Buffer, at: number): SoundFrame | undefined {
  const head = bytes.readUInt32BE(at);
  if (head >>> 21 !== 0x7ff || ((head >>> 17) & 3) !== 1) return undefined;
  const version = (head >>> 19) & 3;
  const is_first = version === 3;
  const bit_rate = bit_rates[is_first ? 1 : 0][(head >>> 12) & 15] ?? 0;
  const sample_rate = sample_rates[version]?.[(head >>> 10) & 3] ?? 0;
  if (bit_rate === 0 || sample_rate === 0) return undefined;
  const samples = is_first ? 1_152 : 576;
  const padding = (head >>> 9) & 1;
  const length = Math.floor((samples * bit_rate * 125) / sample_rate) + padding;
  return { bytes: length, seconds: samples / sample_rate };
}

const FLAC = 0x664c6143;
const FLAC_HEAD_BYTES = 42;
// No frame of it is longer.
const FLAC_FRAME_MAX_BYTES = 16_777_216;

/** Of FLAC the place of its last frame, which each tells. */
function secondsOfBlocks(bytes: Buffer): number {
  const block_samples = bytes.readUInt16BE(10);
  const sample_rate = bytes.readUIntBE(18, 3) >>> 4;
  const first = Math.max(FLAC_HEAD_BYTES, bytes.length - FLAC_FRAME_MAX_BYTES);
  for (let at = bytes.length; sample_rate > 0 && at > first; ) {
    at = bytes.lastIndexOf(0xff, at - 1);
    const ends_at = at < first ? undefined : endOfBlock(bytes, at, block_samples);
    if (ends_at !== undefined) return ends_at / sample_rate;
  }
  return 0;
}

/** The number of samples up to the end of the frame that begins here; undefined if none does. */
function endOfBlock(bytes: Buffer, at: number, block_samples: number): number | undefined {
  const [, sync = 0, sizes = 0, channels = 0, lead = 0] = bytes.subarray(at, at + 5);
  if (sync >>> 1 !== 0x7c || sizes >>> 4 === 0 || (channels & 1) !== 0) return undefined;
  // A number in the manner of UTF-8, longer than that allows.
  const ones = Math.clz32(~(lead << 24));
  const more = ones === 0 ? 0 : ones - 1;
  let number = ones === 0 ? lead : lead & (0x7f >>> ones);
  for (const byte of bytes.subarray(at + 5, at + 5 + more)) number = number * 64 + (byte & 63);
  let end = at + 5 + more;
  const [code, rate] = [sizes >>> 4, sizes & 15];
  const told_bytes = code === 6 ? 1 : code === 7 ? 2 : 0;
  const rate_bytes = rate === 12 ? 1 : rate === 13 || rate === 14 ? 2 : 0;
  if (end + told_bytes + rate_bytes >= bytes.length) return undefined;
  const told = told_bytes === 0 ? 0 : bytes.readUIntBE(end, told_bytes) + 1;
  const samples = told || (code === 1 ? 192 : code < 6 ? 576 << (code - 2) : 256 << (code - 8));
  end += told_bytes + rate_bytes;
  if (checksum(bytes.subarray(at, end)) !== bytes[end]) return undefined;
  // Of frames of one size the place is told in frames.
  return (sync & 1 ? number : number * block_samples) + samples;
}

function checksum(bytes: Buffer): number {
  let sum = 0;
  for (const byte of bytes) {
    sum ^= byte;
    for (let bit = 0; bit < 8; bit += 1) sum = ((sum << 1) ^ (sum & 128 ? 0x107 : 0)) & 255;
  }
  return sum;
}

const EBML = 0x1a45dfa3;
const ids = {
  ...{ segment: 0x18538067, info: 0x1549a966, time_scale: 0x2ad7b1 },
  ...{ cluster: 0x1f43b675, time: 0xe7, group: 0xa0, block: 0xa1, simple_block: 0xa3 },
};
// What others lie in: their own sizes may be unknown, so they are walked through, not over.
const entered: ReadonlySet<number> = new Set([ids.segment, ids.info, ids.cluster, ids.group]);
const TIME_SCALE_NANOS = 1_000_000;
// Hours of blocks; a hostile file could hold millions of empty ones.
const ELEMENTS_MAX = 1_000_000;

/** Of WebM the time of its last block. */
function secondsOfClusters(bytes: Buffer): number {
  let [scale_nanos, begun, last] = [TIME_SCALE_NANOS, 0, 0];
  for (let at = 0, count = 0; at < bytes.length && count < ELEMENTS_MAX; count += 1) {
    const id = variable(bytes, at, true);
    const size = variable(bytes, at + id.bytes, false);
    if (id.bytes === 0 || size.bytes === 0) break;
    at += id.bytes + size.bytes;
    if (entered.has(id.value)) continue;
    const content = bytes.subarray(at, at + size.value);
    if (id.value === ids.time_scale) scale_nanos = unsigned(content);
    else if (id.value === ids.time) begun = unsigned(content);
    else if (id.value === ids.block || id.value === ids.simple_block) {
      const track = variable(content, 0, false);
      if (content.length >= track.bytes + 2)
        last = Math.max(last, begun + content.readInt16BE(track.bytes));
    }
    at += size.value;
  }
  return (last * scale_nanos) / 1_000_000_000;
}

/**
 * A number whose first byte tells how many follow; of zero bytes if there is none. An id keeps
 * the mark of its length.
 */
function variable(bytes: Buffer, at: number, keeps_mark: boolean) {
  const first = bytes[at] ?? 0;
  const length = Math.clz32(first) - 23;
  if (first === 0 || at + length > bytes.length) return { bytes: 0, value: 0 };
  const mark = 1 << (8 - length);
  const rest = unsigned(bytes.subarray(at + 1, at + length));
  const value = (keeps_mark ? first : first - mark) * 256 ** (length - 1) + rest;
  return { bytes: length, value };
}

function unsigned(bytes: Buffer): number {
  let value = 0;
  for (const byte of bytes.subarray(0, 8)) value = value * 256 + byte;
  return value;
}
