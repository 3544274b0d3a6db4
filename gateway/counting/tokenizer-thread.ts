import { parentPort } from 'node:worker_threads';
import { countTexts, type Encoding } from './tokenizer';

interface Question {
  id: number;
  texts: readonly string[];
  encoding: Encoding;
}

// The thread that counts the tokens of long texts, one question after another.
parentPort?.on('message', ({ id, texts, encoding }: Question) => {
  parentPort?.postMessage({ id, answer: countTexts(texts, encoding) });
});
