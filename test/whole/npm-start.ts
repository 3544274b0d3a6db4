import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { promisify } from 'node:util';
import { root } from '../../runtime/root';
import { until } from '../support/until';

/** `npm start` under way. */
export interface Started {
  process: ChildProcess;
  output: () => string;
  ended: Promise<unknown>;
}

export function npmStart(data_dir: string, env: Record<string, string> = {}): Started {
  const child = spawn('npm', ['start'], {
    cwd: root,
    env: { ...process.env, DATA_DIR: data_dir, PORTS: 'free', GATEWAYS: '2', ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (chunk) => {
      output += chunk;
    });
  }
  return { process: child, output: () => output, ended: once(child, 'exit') };
}

/** The commands that a start prints to be tried. */
export function printedCalls(output: string): string[] {
  return output.match(/^ {2}curl (.*\\\n)?.*$/gm) ?? [];
}

export async function shell(command: string): Promise<string> {
  const { stdout } = await promisify(execFile)('/bin/sh', ['-c', command]);
  return stdout;
}

/** The JSON that a printed call answers; what a busy machine was too slow for is asked again. */
// biome-ignore lint/suspicious/noExplicitAny: answers are JSON of many shapes.
export async function answerOf(command: string): Promise<any> {
  // biome-ignore lint/suspicious/noExplicitAny: the same.
  let answer: any;
  await until(async () => {
    answer = JSON.parse(await shell(command));
    return answer.error?.type !== 'overloaded_error';
  });
  return answer;
}

export function typesOf(ledger: string): string[] {
  const { transactions } = JSON.parse(ledger) as { transactions: { type: string }[] };
  return transactions.map(({ type }) => type);
}

export async function status(url: string): Promise<number> {
  const answer = await fetch(url);
  await answer.arrayBuffer();
  return answer.status;
}
