import { parentPort } from 'node:worker_threads';

interface Question {
  id: number;
  bytes: Uint8Array;
  type: string;
  name: string;
}

// The thread that reads how long sound files last: what a hostile one takes to read, it takes here.
parentPort?.on('message', async ({ id, bytes, type, name }: Question) => {
  const { parseBuffer } = await import('music-metadata');
  const file = { size: bytes.length, path: name, ...(type ? { mimeType: type } : {}) };
  const seconds = await parseBuffer(bytes, file, { skipCovers: true, duration: true }).then(
    ({ format }) => format.duration ?? null,
    () => null,
  );
  parentPort?.postMessage({ id, answer: seconds });
});
