import { parentPort } from 'node:worker_threads';
import { createCounter, type Encoding } from './counter';

interface Question {
  id: number;
  texts: readonly string[];
  encoding: Encoding;
}

const counter = createCounter();

// The thread that counts the tokens of long texts, one question after another.
parentPort?.on('message', ({ id, texts, encoding }: Question) => {
  parentPort?.postMessage({ id, answer: counter.count(texts, encoding) });
});
