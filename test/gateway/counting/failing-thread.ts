import { parentPort } from 'node:worker_threads';

parentPort?.on('message', () => {
  throw new Error('It fails at the first question.');
});
