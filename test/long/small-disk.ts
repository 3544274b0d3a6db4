import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmdirSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';

/** A disk of its own, as small as a test wants it. */
export interface SmallDisk {
  /** Where it is. */
  dir: string;
  /** Changes it while it is used: `size=8m`, `ro`. */
  change: (options: string) => void;
  close: () => void;
}

/** Mounts a tmpfs with options: `size=1m`. Throws with what is missing if that is not permitted. */
export function openSmallDisk(options: string): SmallDisk {
  const dir = mkdtempSync(path.join(tmpdir(), 'svc-disk-'));
  mount('-t', 'tmpfs', '-o', options, 'tmpfs', dir);
  return {
    dir,
    change: (changed) => mount('-o', `remount,${changed}`, dir),
    close() {
      run('umount', [dir]);
      rmdirSync(dir);
    },
  };
}

function mount(...flags: string[]): void {
  run('mount', flags);
}

function run(program: string, flags: string[]): void {
  const { status, stderr, error } = spawnSync(program, flags, { encoding: 'utf8' });
  if (status === 0) return;
  throw new Error(
    `This test needs a small disk, and "${program} ${flags.join(' ')}" failed: ` +
      `${error?.message ?? stderr.trim()}. Run it as root with CAP_SYS_ADMIN; in a container, add ` +
      '--cap-add SYS_ADMIN (and --security-opt apparmor=unconfined).',
  );
}
