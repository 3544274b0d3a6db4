import { createHash, randomUUID } from 'node:crypto';
import { mkdir, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { bundleWorkflowCode, DefaultLogger } from '@temporalio/worker';
import { cacheFolder } from '../config';
import { root } from '../root';

const PREFIX = 'workflows-';

/**
 * The workflows as one script for Temporal's sandbox. It is kept in the cache folder under the hash of all that it could be made
 * of, so that a worker that is started again takes up its work seconds sooner.
 */
export async function bundleWorkflows(): Promise<string> {
  const kept = path.join(cacheFolder(), `${PREFIX}${await hashOfSources()}.js`);
  const earlier = await readFile(kept, 'utf8').catch(() => undefined);
  if (earlier !== undefined) return earlier;
  const { code } = await bundleWorkflowCode({
    workflowsPath: path.join(root, 'workflows/index.ts'),
    workflowInterceptorModules: [path.join(root, 'workflows/tracing.ts')],
    logger: new DefaultLogger('ERROR'),
  });
  // Where nothing can be kept, the next start makes it again.
  await keep(kept, code).catch(() => undefined);
  return code;
}

/** Of our TypeScript and of the locked versions of packages. */
async function hashOfSources(): Promise<string> {
  const ours = await readdir(root, { withFileTypes: true });
  const folders = ours.filter((entry) => entry.isDirectory() && isOurs(entry.name));
  const listed = await Promise.all(folders.map(({ name }) => sourcesIn(name)));
  const files = ours
    .filter((entry) => entry.isFile() && isSource(entry.name))
    .map(({ name }) => name);
  const hash = createHash('sha256').update(process.version);
  for (const file of [...files, ...listed.flat()].sort()) {
    const digest = createHash('sha256').update(await readFile(path.join(root, file)));
    hash.update(`${file} ${digest.digest('hex')}\n`);
  }
  return hash.digest('hex').slice(0, 32);
}

function isOurs(folder: string): boolean {
  return !folder.startsWith('.') && !['node_modules', 'test', 'bench'].includes(folder);
}

function isSource(name: string): boolean {
  return name.endsWith('.ts') || name === 'package-lock.json';
}

async function sourcesIn(folder: string): Promise<string[]> {
  const names = await readdir(path.join(root, folder), { recursive: true });
  return names.filter(isSource).map((name) => path.join(folder, name));
}

/** On the disk before it has its name, so that neither two starts nor a power cut leave half of it; what was kept before goes. */
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
