// Forms with a sound file, as official clients send them.

export const SECONDS = 12;

/** Silence of 8,000 samples of a byte a second. */
export function wav(seconds = SECONDS): Buffer {
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

export interface Part {
  name: string;
  value: string | Buffer;
  file?: string;
}

export const good: Part[] = [
  { name: 'file', value: wav(), file: 'silence.wav' },
  { name: 'model', value: 'whisper-1' },
];

export function encode(parts: Part[], boundary = 'b0undary'): Buffer {
  const chunks = parts.flatMap(({ name, value, file }) => [
    Buffer.from(`--${boundary}\r\ncontent-disposition: form-data; name="${name}"`),
    Buffer.from(file ? `; filename="${file}"\r\ncontent-type: audio/wav\r\n\r\n` : '\r\n\r\n'),
    Buffer.from(value),
    Buffer.from('\r\n'),
  ]);
  return Buffer.concat([...chunks, Buffer.from(`--${boundary}--\r\n`)]);
}
