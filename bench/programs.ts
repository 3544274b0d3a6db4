import { type ChildProcess, spawn } from 'node:child_process';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { request } from 'undici';
import { root } from '../runtime/root';
import { freePorts } from '../sandbox/processes/ports';

/** A server of the bench: its address and its process. */
export interface Part {
  url: string;
  pid: number;
}

/**
 * The folder whose programs are measured: this one, or that of another version, by
 * `BENCH_OF=../before npm run bench`. The bench's own programs are always these.
 */
export const measured_folder = path.resolve(process.env.BENCH_OF ?? root);

/** Runs something beside an idle Koa server of one route. */
export async function withKoaRoute<Result>(run: (koa: Part) => Promise<Result>): Promise<Result> {
  const [port = 0] = await freePorts(1);
  const child = startScript('bench/processes/koa-route.ts', { PORT: String(port) });
  const url = `http://127.0.0.1:${port}`;
  try {
    await waitFor(url, true);
    return await run({ url, pid: child.pid as number });
  } finally {
    await end(child);
  }
}

/** Starts a TypeScript file as a process of its own. */
export function startScript(script: string, env: Record<string, string>): ChildProcess {
  const child = spawn(process.execPath, [...profiling(script), 'run.cjs', script], {
    cwd: script.startsWith('bench/') ? root : measured_folder,
    env: { ...process.env, ...env },
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  running.add(child);
  child.once('exit', () => running.delete(child));
  return child;
}

const running = new Set<ChildProcess>();
// None outlives a bench that fails, or that somebody stops.
process.once('exit', () => {
  for (const child of running) child.kill();
});
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(1));

export async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null) return;
  const ended = new Promise((resolve) => child.once('exit', resolve));
  child.kill('SIGTERM');
  const timer = setTimeout(() => child.kill('SIGKILL'), 8_000);
  await ended;
  clearTimeout(timer);
}

/** Waits until an address answers, with 200 if that is asked. */
export async function waitFor(url: string, is_strict: boolean): Promise<void> {
  for (let attempt = 0; attempt < 300; attempt += 1) {
    const status = await request(url).then(
      async (answer) => {
        await answer.body.dump();
        return answer.statusCode;
      },
      () => 0,
    );
    if (status === 200 || (!is_strict && status > 0)) return;
    await sleep(100);
  }
  throw new Error(`${url} did not become ready.`);
}

/** `BENCH_PROFILE=gateway/main.ts` writes a CPU profile of that process to the working folder. */
function profiling(script: string): string[] {
  return process.env.BENCH_PROFILE === script
    ? ['--cpu-prof', '--cpu-prof-dir=.data/profiles']
    : [];
}
