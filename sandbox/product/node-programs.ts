import path from 'node:path';
import { childVariables } from '../../runtime/config';
import { root } from '../../runtime/root';
import type { TemporalAddress } from '../../temporal/connection';
import type { Program } from '../processes/processes';
import { pollersOf } from '../servers/temporal';

const followParent = path.join(root, 'sandbox/follow-parent.cjs');
const READY_MS = 60_000;

interface Script {
  name: string;
  /** From the project's folder. */
  script: string;
  /** A process of the product: it gets the variables that it reads, and the named ones. */
  process_name?: 'api' | 'gateway' | 'worker' | 'console';
  named?: readonly string[];
  env: Record<string, string>;
}

/** A server of ours, ready when its address answers 200. */
export function serverProgram({ ready_url, ...script }: Script & { ready_url: string }): Program {
  return nodeProgram(script, () => isOk(ready_url));
}

/**
 * Memory that many threads have freed stays with the C library, by heaps of each. Two heaps are
 * enough for the SDK's threads, and leave a worker smaller.
 */
export const few_heaps = { MALLOC_ARENA_MAX: '2' };

/** A Temporal worker of ours, ready when the server has seen it ask for work. */
export function workerProgram(
  script: Script & { to: TemporalAddress; task_queue: string },
): Program {
  const { to, task_queue } = script;
  let before = new Set<string>();
  const fresh = async () => {
    const polls = await pollersOf(to, task_queue);
    return polls.some((poll) => !before.has(poll));
  };
  const prepare = async () => {
    before = new Set(await pollersOf(to, task_queue).catch(() => []));
  };
  const program = nodeProgram({ ...script, env: { ...few_heaps, ...script.env } }, fresh);
  return { ...program, prepare };
}

/** True if an address answers 200. */
export async function isOk(url: string): Promise<boolean> {
  const response = await fetch(url, { signal: AbortSignal.timeout(2_000) });
  await response.arrayBuffer();
  return response.status === 200;
}

function nodeProgram(
  { name, script, env, ...wanted }: Script,
  isReady: () => Promise<boolean>,
): Program {
  return {
    name,
    command: process.execPath,
    args: ['--require', followParent, 'run.cjs', script],
    env: { ...childVariables(wanted), ...env },
    cwd: root,
    has_channel: true,
    stop_signals: ['SIGTERM', 'SIGKILL'],
    isReady,
    ready_timeout_ms: READY_MS,
  };
}
