import { execFile } from 'node:child_process';
import { createHash, randomUUID } from 'node:crypto';
import { mkdir, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';
import { cacheFolder } from '../runtime/config';
import { root } from '../runtime/root';

const run = promisify(execFile);

const PREFIX = 'workflows-';
const SCRIPT_BYTES_MAX = 64 * 1_048_576;

// All folders that the bundle can be made of: lint keeps workflows to the SDK, to themselves and to
// imports from these.
const folders = ['activities', 'domain', 'workflows', 'workers'];

/**
 * The workflows as one script for Temporal's sandbox. It is kept in the cache folder under the hash
 * of all that it could be made of, so that a worker that is started again takes up its work seconds
 * sooner. If nothing can be kept it is made each time.
 */
export async function bundleWorkflows(): Promise<string> {
  const kept = path.join(cacheFolder(), `${PREFIX}${await hashOfSources()}.js`);
  const earlier = await readFile(kept, 'utf8').catch(() => '');
  const [sum, script] = split(earlier);
  if (sum === hashOf(script)) return script;
  const { stdout: code } = await run(process.execPath, ['run.cjs', 'workers/make-bundle.ts'], {
    cwd: root,
    maxBuffer: SCRIPT_BYTES_MAX,
  });
  await keep(kept, `${hashOf(code)}\n${code}`).catch(() => undefined);
  return code;
}

/** Of our TypeScript in those folders and of the locked versions of packages. */
async function hashOfSources(): Promise<string> {
  const listed = await Promise.all(folders.map(sourcesIn));
  const hash = createHash('sha256').update(process.version);
  for (const file of ['package-lock.json', ...listed.flat().sort()]) {
    hash.update(`${file} ${hashOf(await readFile(path.join(root, file)))}\n`);
  }
  return hash.digest('hex').slice(0, 32);
}

function hashOf(content: string | Buffer): string {
  return createHash('sha256').update(content).digest('hex');
}

/** The first line, which is the hash of the rest, and the rest. */
function split(text: string): [string, string] {
  const end = text.indexOf('\n');
  return [text.slice(0, end), text.slice(end + 1)];
}

async function sourcesIn(folder: string): Promise<string[]> {
  const names = await readdir(path.join(root, folder), { recursive: true });
  return names.filter((name) => name.endsWith('.ts')).map((name) => path.join(folder, name));
}

/**
 * On the disk before it has its name, so that neither two starts nor a power cut leave half of it;
 * earlier bundles are removed.
 */
async function keep(file: string, code: string): Promise<void> {
  const folder = path.dirname(file);
  await mkdir(folder, { recursive: true });
  const beside = `${file}.${randomUUID()}`;
  await writeFile(beside, code, { flush: true });
  await rename(beside, file);
  for (const name of await readdir(folder)) {
    if (name.startsWith(PREFIX) && name !== path.basename(file))
      await rm(path.join(folder, name), { force: true });
  }
}
