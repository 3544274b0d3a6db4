// Files of sound, as recorders write them and as nobody should.

export function chunk(name: string, bytes: number, told = bytes): Buffer {
  const head = Buffer.alloc(8);
  head.write(name);
  head.writeUInt32LE(told, 4);
  return Buffer.concat([head, Buffer.alloc(bytes, 128)]);
}

/** Of 8,000 samples of a byte a second. */
export function wav(...chunks: Buffer[]): Buffer {
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
export function mp3(count: number, kilobits: number): Buffer {
  const [code, bytes] = rates[kilobits] ?? [0, 0];
  const frame = Buffer.alloc(bytes);
  frame.set([0xff, 0xfb, code << 4, 0x64]);
  return Buffer.concat(Array.from({ length: count }, () => frame));
}

/** The first frame of a file that says what the others are. */
export function summary(frames: number, bytes: number): Buffer {
  const frame = mp3(1, 128);
  frame.write('Xing', 36);
  frame.writeUInt32BE(3, 40);
  frame.writeUInt32BE(frames, 44);
  frame.writeUInt32BE(bytes, 48);
  return frame;
}

export const UNKNOWN = Buffer.from('01ffffffffffffff', 'hex');

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
export function webm(seconds: number, size?: Buffer, told?: number): Buffer {
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
export function flac(frames: number, told: number): Buffer {
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
