import { type ChildProcess, spawn } from 'node:child_process';
import type { Socket } from 'node:net';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';

/** A process to be: how it is started, known to work, and stopped. */
export interface Program {
  name: string;
  command: string;
  args: string[];
  env: NodeJS.ProcessEnv;
  cwd: string;
  /** The system user to run as, if it is not ours. */
  run_as?: SystemUser | undefined;
  /** The first asks it to end, the second makes it end. If it survives both, it is killed. */
  stop_signals: readonly [NodeJS.Signals, NodeJS.Signals];
  /**
   * A Node process that ends itself when its channel to us closes; others get a guard that does it
   * for them.
   */
  has_channel?: boolean;
  /** Runs before each start. */
  prepare?: () => Promise<void>;
  /** Asked again and again after a start; an exception counts as no. */
  isReady: () => Promise<boolean>;
  ready_timeout_ms: number;
}

export interface SystemUser {
  uid: number;
  gid: number;
}

export interface Process {
  name: string;
  pid: number;
  /** Resolves when the process has ended, with words for how. */
  ended: Promise<string>;
  stop: (grace_ms?: number) => Promise<void>;
}

export interface Watch {
  /** Each line that the process writes. */
  onLine?: (line: string) => void;
  /** The moment it exists, long before it is ready. */
  onPid?: (pid: number) => void;
  /** Gives up a start that is not ready yet. */
  signal?: AbortSignal;
}

const POLL_MS = 50;
const STOP_GRACE_MS = 5_000;
const LINES_KEPT = 20;

/**
 * Starts a process in a group of its own and waits until it works. If it does not, the error holds
 * its last lines.
 */
export async function launch(program: Program, watch: Watch = {}): Promise<Process> {
  await program.prepare?.();
  const child = spawnProgram(program);
  const lastWords = readLines(child, watch);
  const ended = new Promise<string>((resolve) => {
    child.once('error', (error) => resolve(`could not be started: ${error.message}`));
    child.once('exit', (code, signal) => resolve(signal ? `ended by ${signal}` : `exited ${code}`));
  });
  if (child.pid === undefined) throw new Error(`${program.name} ${await ended}`);
  if (!program.has_channel) guard(child.pid, program.stop_signals[0], ended);
  watch.onPid?.(child.pid);
  const running: Process = {
    name: program.name,
    pid: child.pid,
    ended,
    stop: (grace_ms = STOP_GRACE_MS) => stop(program, child, ended, grace_ms),
  };
  try {
    await waitUntilReady(program, ended, watch.signal);
  } catch (error) {
    await running.stop(1_000);
    throw new Error(`${(error as Error).message}\n${lastWords().join('\n')}`.trimEnd());
  }
  return running;
}

function spawnProgram(program: Program): ChildProcess {
  return spawn(program.command, program.args, {
    cwd: program.cwd,
    env: program.env,
    // A group of its own: Ctrl-C reaches only us, and we decide the order of stopping.
    detached: true,
    stdio: ['ignore', 'pipe', 'pipe', ...(program.has_channel ? (['ipc'] as const) : [])],
    ...(program.run_as && { uid: program.run_as.uid, gid: program.run_as.gid }),
  });
}

// A process without a channel cannot see that we were killed. This shell can: its input ends with
// us, and it passes the word on.
function guard(pid: number, signal: NodeJS.Signals, ended: Promise<string>): void {
  const script = 'read -r word || kill -s "$2" "$1"';
  const shell = spawn('/bin/sh', ['-c', script, 'sh', String(pid), signal.replace('SIG', '')], {
    cwd: '/',
    detached: true,
    stdio: ['pipe', 'ignore', 'ignore'],
  });
  shell.unref();
  shell.stdin.on('error', () => undefined);
  (shell.stdin as Socket).unref();
  void ended.then(() => shell.stdin.end('ended\n'));
}

function readLines(child: ChildProcess, { onLine }: Watch): () => string[] {
  const kept: string[] = [];
  for (const input of [child.stdout, child.stderr]) {
    if (!input) continue;
    createInterface({ input }).on('line', (line) => {
      kept.push(line);
      if (kept.length > LINES_KEPT) kept.shift();
      onLine?.(line);
    });
  }
  return () => kept;
}

async function waitUntilReady(
  program: Program,
  ended: Promise<string>,
  signal?: AbortSignal,
): Promise<void> {
  const deadline = performance.now() + program.ready_timeout_ms;
  const over = Promise.race([
    ended.then((how) => `${how} before it was ready`),
    new Promise<string>((resolve) =>
      signal?.addEventListener('abort', () => resolve('was stopped'), { once: true }),
    ),
  ]);
  while (performance.now() < deadline) {
    const ready = program.isReady().catch(() => false);
    const outcome = await Promise.race([over, ready]);
    // A process that ended is not ready, even if another one answers at its address.
    const how = outcome === true ? await Promise.race([over, sleep(0)]) : outcome;
    if (typeof how === 'string') throw new Error(`${program.name} ${how}.`);
    if (outcome === true) return;
    await sleep(POLL_MS);
  }
  throw new Error(`${program.name} was not ready after ${program.ready_timeout_ms / 1_000} s.`);
}

async function stop(
  program: Program,
  child: ChildProcess,
  ended: Promise<string>,
  grace_ms: number,
): Promise<void> {
  const [ask, insist] = program.stop_signals;
  if (child.exitCode !== null || child.signalCode !== null) return;
  child.kill(ask);
  if (await endsWithin(ended, grace_ms)) return;
  child.kill(insist);
  if (await endsWithin(ended, 1_000)) return;
  killGroup(child.pid as number);
  await ended;
}

function endsWithin(ended: Promise<string>, ms: number): Promise<boolean> {
  const waited = new AbortController();
  const timeout = sleep(ms, false, { signal: waited.signal }).catch(() => false);
  return Promise.race([ended.then(() => true), timeout]).finally(() => waited.abort());
}

/** Kills a process and the group it leads. */
export function killGroup(pid: number): void {
  for (const target of [-pid, pid]) {
    try {
      process.kill(target, 'SIGKILL');
    } catch {
      // It has ended already.
    }
  }
}
