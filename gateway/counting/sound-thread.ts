import { parentPort } from 'node:worker_threads';
import { lengthOf, type SoundFile } from './sound-length';

// The thread that reads how long sound files last: what a hostile one takes to read, it takes here.
parentPort?.on('message', async ({ id, ...file }: SoundFile & { id: number }) => {
  const seconds = (await lengthOf(file)) ?? null;
  parentPort?.postMessage({ id, answer: seconds });
});
