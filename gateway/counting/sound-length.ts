import {
  ADTS,
  BufferSource,
  FLAC,
  Input,
  type InputAudioTrack,
  MATROSKA,
  MP3,
  MP4,
  OGG,
  QTFF,
  WAVE,
  WEBM,
} from 'mediabunny';

// The content of a file counts, not its head: recorders that stream leave the length out, and
// anybody can write a head. Mediabunny goes from packet to packet and does not believe heads, but
// that of a WAV: this file counts a WAV's samples itself. music-metadata knows more kinds of files,
// but believes all of them. Of the files that the tests make it reads 4 of 16 right.

export interface SoundFile {
  bytes: Uint8Array;
  /** Its media type; empty if nobody said one. */
  type: string;
  name: string;
}

// All that providers take, each in a file of its own. Playlists are left out, which name other
// files to be fetched.
const formats = [MP3, MP4, QTFF, WAVE, WEBM, MATROSKA, OGG, FLAC, ADTS];

/** How long a sound lasts, in seconds; undefined if its file does not say. */
export async function lengthOf(file: SoundFile): Promise<number | undefined> {
  // A file that cannot be walked may still say something in its head.
  const walked = await secondsOfPackets(file.bytes).catch(() => 0);
  return walked > 0 ? walked : secondsByHead(file).catch(() => undefined);
}

async function secondsOfPackets(bytes: Uint8Array): Promise<number> {
  const input = new Input({ formats, source: new BufferSource(bytes) });
  const track = await input.getPrimaryAudioTrack();
  if (track === null) return 0;
  const seconds = await input.computeDuration([track]);
  return (await input.getFormat()) === WAVE ? secondsOfSamples(bytes, track, seconds) : seconds;
}

const WAVE_HEAD_BYTES = 44;
// Names and the like may stand beside the samples, within reason.
const SAMPLES_SHARE = 0.9;

/**
 * Nearly all bytes of a WAV are samples: decoders look for more behind what the first piece says it
 * holds.
 */
async function secondsOfSamples(
  { length }: Uint8Array,
  track: InputAudioTrack,
  seconds: number,
): Promise<number> {
  const [, bits = 0] = /^pcm-[usf](\d+)/.exec((await track.getCodec()) ?? '') ?? [];
  const bits_per_second =
    (await track.getSampleRate()) * (await track.getNumberOfChannels()) * Number(bits);
  if (bits_per_second === 0) return seconds;
  const most = (Math.max(0, length - WAVE_HEAD_BYTES) * 8) / bits_per_second;
  return seconds >= most * SAMPLES_SHARE && seconds <= most ? seconds : most;
}

async function secondsByHead({ bytes, type, name }: SoundFile): Promise<number | undefined> {
  const { parseBuffer } = await import('music-metadata');
  const about = { size: bytes.length, path: name, ...(type ? { mimeType: type } : {}) };
  const { format } = await parseBuffer(bytes, about, { skipCovers: true, duration: true });
  return format.duration;
}
