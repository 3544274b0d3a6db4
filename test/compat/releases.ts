import { execFileSync, spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { root } from '../../runtime/root';
import { API_VERSION } from '../../runtime/version';

/** The programs of one version, as they are started from its folder. */
export interface Release {
  version: string;
  folder: string;
}

export const current: Release = { version: API_VERSION, folder: root };

// The last commit of what counts as 1.4.0. It says 1.5.0 of itself, in one place.
const PREVIOUS = {
  commit: 'e1d3a705263915c921e9471b8e066738688ae1c0',
  version: '1.4.0',
  constant_in: 'http.ts',
  written: "export const API_VERSION = '1.5.0';",
};
const ARCHIVE_BYTES_MAX = 256 * 1_048_576;

/**
 * The release before, from this repository's history, with its version constant set and nothing
 * else. Its packages are this version's: a test says that they are those that it names. Throws if
 * the history lacks the commit.
 */
export function checkOutPrevious(): Release & { remove: () => void } {
  const { commit, version, constant_in, written } = PREVIOUS;
  if (!isKnown(commit)) {
    // A shallow clone: the rest of the history is where it came from.
    const fetched = spawnSync('git', ['fetch', '--quiet', '--unshallow'], { cwd: root });
    if (!isKnown(commit))
      throw new Error(
        `The commit ${commit}, which counts as ${version}, is not in this clone, and without it nothing ` +
          `can be compared. Fetch the whole history: git fetch --unshallow. ${fetched.stderr}`,
      );
  }
  const folder = mkdtempSync(path.join(tmpdir(), 'svc-previous-'));
  const archive = execFileSync('git', ['archive', commit], {
    cwd: root,
    maxBuffer: ARCHIVE_BYTES_MAX,
  });
  execFileSync('tar', ['-x', '-C', folder], { input: archive });
  const file = path.join(folder, constant_in);
  const text = readFileSync(file, 'utf8');
  if (text.split(written).length !== 2)
    throw new Error(`${constant_in} of ${commit} does not say its version once.`);
  writeFileSync(file, text.replace(written, written.replace('1.5.0', version)));
  symlinkSync(path.join(root, 'node_modules'), path.join(folder, 'node_modules'));
  return { version, folder, remove: () => rmSync(folder, { recursive: true, force: true }) };
}

function isKnown(commit: string): boolean {
  return spawnSync('git', ['cat-file', '-e', `${commit}^{commit}`], { cwd: root }).status === 0;
}

/** The packages that a release needs to run, with their exact versions. */
export function packagesOf({ folder }: Release): Record<string, string> {
  return JSON.parse(readFileSync(path.join(folder, 'package.json'), 'utf8')).dependencies;
}

/** The routes of a release as it describes them. */
export function openApiOf({ folder }: Release): unknown {
  return JSON.parse(readFileSync(path.join(folder, 'openapi.json'), 'utf8'));
}
