import path from 'node:path';
import { Worker } from 'node:worker_threads';
import { root } from '../../runtime/root';

/**
 * A thread for work that would hold the event loop too long. It takes `{id, ...question}` and posts
 * `{id, answer}`.
 */
export interface Thread<Question, Answer> {
  /** Rejects if the thread is busy, or has ended. */
  ask(question: Question): Promise<Answer>;
  stop(): void;
}

interface Waiting<Answer> {
  resolve(answer: Answer): void;
  reject(error: Error): void;
}

const QUEUE_MAX = 64;

/**
 * Starts a thread that runs a program, by its path in the project's folder. `onGone` is called if
 * it ends by itself.
 */
export function startThread<Question extends object, Answer>(
  program: string,
  onGone: () => void,
): Thread<Question, Answer> {
  const worker = new Worker(path.join(root, 'run.cjs'), { argv: [path.join(root, program)] });
  worker.unref();
  const waiting = new Map<number, Waiting<Answer>>();
  let last_id = 0;
  worker.on('message', ({ id, answer }: { id: number; answer: Answer }) => {
    waiting.get(id)?.resolve(answer);
    waiting.delete(id);
  });
  let is_gone = false;
  // An error is followed by the exit, when another thread may have taken its place.
  const gone = () => {
    if (is_gone) return;
    is_gone = true;
    for (const { reject } of waiting.values()) reject(new Error('The thread has ended.'));
    waiting.clear();
    onGone();
  };
  worker.on('error', gone);
  worker.on('exit', gone);
  return {
    ask(question) {
      if (waiting.size >= QUEUE_MAX) return Promise.reject(new Error('The thread is busy.'));
      last_id += 1;
      const id = last_id;
      worker.postMessage({ id, ...question });
      return new Promise((resolve, reject) => waiting.set(id, { resolve, reject }));
    },
    stop: () => void worker.terminate(),
  };
}
