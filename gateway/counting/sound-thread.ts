import { parentPort } from 'node:worker_threads';
import { lengthOf, type SoundFile, type SoundFormat } from './sound-length';

// The thread that reads how long sound files last: what a hostile one takes to read, it takes here.
parentPort?.on('message', async ({ id, bytes, type, name }: SoundFile & { id: number }) => {
  const { parseBuffer } = await import('music-metadata');
  const file = { size: bytes.length, path: name, ...(type ? { mimeType: type } : {}) };
  // What it cannot read may still be walked: it stumbles over what browsers record.
  const format = await parseBuffer(bytes, file, { skipCovers: true, duration: true }).then(
    (read): SoundFormat => read.format,
    (): SoundFormat => ({}),
  );
  parentPort?.postMessage({ id, answer: lengthOf(bytes, format) ?? null });
});
