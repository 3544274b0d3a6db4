import { parentPort } from 'node:worker_threads';
import { type CountedTexts, createCounter } from './counter';

const counter = createCounter();

// The thread that counts the tokens of long texts, one list of them after another.
parentPort?.on('message', ({ id, texts, encoding }: CountedTexts & { id: number }) => {
  parentPort?.postMessage({ id, answer: counter.count(texts, encoding) });
});
