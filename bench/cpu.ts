import { readdirSync, readFileSync } from 'node:fs';

// Linux counts process time in hundredths of a second.
const TICK_MS = 10;

/** CPU milliseconds that processes and their children have used so far, of Linux's /proc. */
export function cpuMs(pids: readonly number[]): number {
  return family(pids).reduce((sum, pid) => sum + ticks(pid), 0) * TICK_MS;
}

interface Use {
  pid: number;
  parent: number;
  ms: number;
}

/** The same of a process and of each that descends from it, one by one. */
export function cpuByProcess(root: number): Use[] {
  const found = new Map<number, Use>();
  const pids = readdirSync('/proc').map(Number).filter(Number.isInteger);
  const add = (pid: number, parent: number) => {
    found.set(pid, { pid, parent, ms: ticks(pid) * TICK_MS });
    for (const child of pids) if (!found.has(child) && parentOf(child) === pid) add(child, pid);
  };
  add(root, 0);
  return [...found.values()];
}

/** Resident memory of a process in bytes. */
export function residentBytes(pid: number): number {
  const match = /VmRSS:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'));
  return Number(match?.[1] ?? 0) * 1_024;
}

function family(pids: readonly number[]): number[] {
  const known = new Set(pids);
  for (const name of readdirSync('/proc')) {
    const pid = Number(name);
    if (Number.isInteger(pid) && known.has(parentOf(pid))) known.add(pid);
  }
  return [...known];
}

function fields(pid: number): string[] {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    return stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  } catch {
    return [];
  }
}

function parentOf(pid: number): number {
  return Number(fields(pid)[1] ?? 0);
}

// utime, stime, and those of children that have ended.
function ticks(pid: number): number {
  return fields(pid)
    .slice(11, 15)
    .reduce((sum, text) => sum + Number(text), 0);
}
