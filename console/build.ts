import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { cp, mkdir, mkdtemp, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { brotliCompressSync, constants, gzipSync } from 'node:zlib';
import { buildForUse, cacheFolder, loadConfig } from '../runtime/config';
import { root } from '../runtime/root';

const web = path.join(root, 'console/web');
/** The highest is a tenth smaller and takes ten times as long. */
const BROTLI_QUALITY = 9;
// Packages are as the lock file says; the builder is one of them.
const beside = ['package-lock.json', 'console/build.ts'];

/**
 * Builds the pages into CONSOLE_DIR. What is made of the sources is kept under their hash beside
 * other things that can be made again, so that a build of the same sources only writes the one file
 * that names the addresses.
 */
export async function main(): Promise<void> {
  const { CONSOLE_DIR, PUBLIC_API_URL, PUBLIC_GATEWAY_URL } = loadConfig('console_build');
  const folder = path.resolve(CONSOLE_DIR);
  const made = await madeOf(await hashOfSources());
  const assets = path.join(folder, 'assets');
  await rm(assets, { recursive: true, force: true });
  await mkdir(assets, { recursive: true });
  await cp(path.join(made, 'assets'), assets, { recursive: true });
  const addresses = { api_url: PUBLIC_API_URL, gateway_url: PUBLIC_GATEWAY_URL };
  const text = `globalThis.svc_addresses = ${JSON.stringify(addresses)};\n`;
  const origins = `origins-${sha256(text).slice(0, 12)}.js`;
  await writeFile(path.join(assets, origins), text);
  const { script, styles } = entryOf(
    JSON.parse(await readFile(path.join(made, 'manifest.json'), 'utf8')),
  );
  const built = { script, styles, origins, ...addresses };
  await writeFile(path.join(folder, 'built.json'), `${JSON.stringify(built, null, 2)}\n`);
}

async function hashOfSources(): Promise<string> {
  const hash = createHash('sha256');
  const inside = await readdir(web, { recursive: true, withFileTypes: true });
  const files = inside
    .filter((one) => one.isFile())
    .map((one) => path.join(one.parentPath, one.name))
    .sort();
  for (const file of [...beside.map((name) => path.join(root, name)), ...files]) {
    hash.update(`${path.relative(root, file)}\0`);
    hash.update(await readFile(file));
  }
  return hash.digest('hex').slice(0, 24);
}

/** The folder of what is made of the sources; makes it if nobody has. */
async function madeOf(hash: string): Promise<string> {
  const cache = path.join(cacheFolder(), 'console');
  const made = path.join(cache, hash);
  if (existsSync(path.join(made, 'manifest.json'))) return made;
  await mkdir(cache, { recursive: true });
  const scratch = await mkdtemp(path.join(cache, 'making-'));
  try {
    await bundle(scratch);
    await compress(path.join(scratch, 'assets'));
    // Whoever was faster has made the same.
    await rename(scratch, made).catch(async (error: NodeJS.ErrnoException) => {
      if (!['ENOTEMPTY', 'EEXIST'].includes(error.code ?? '')) throw error;
    });
  } finally {
    await rm(scratch, { recursive: true, force: true });
  }
  return made;
}

async function bundle(out: string): Promise<void> {
  // Whoever starts this may be a test or a developer's shell.
  buildForUse();
  const { build } = await import('vite');
  await build({
    root: web,
    configFile: false,
    // Its warnings are of packages, whose "use client" means nothing here.
    logLevel: 'error',
    base: '/',
    publicDir: false,
    build: {
      outDir: out,
      emptyOutDir: true,
      assetsDir: 'assets',
      assetsInlineLimit: 0,
      manifest: 'manifest.json',
      sourcemap: false,
      target: 'es2023',
      chunkSizeWarningLimit: 1_000,
      rolldownOptions: { input: path.join(web, 'main.tsx') },
    },
  });
}

/** Beside each file stand the two forms in which browsers take it. */
async function compress(folder: string): Promise<void> {
  for (const name of await readdir(folder)) {
    const bytes = await readFile(path.join(folder, name));
    const quality = { [constants.BROTLI_PARAM_QUALITY]: BROTLI_QUALITY };
    await writeFile(
      path.join(folder, `${name}.br`),
      brotliCompressSync(bytes, { params: quality }),
    );
    await writeFile(path.join(folder, `${name}.gz`), gzipSync(bytes, { level: 9 }));
  }
}

/** The entry of the page and its styles, of the builder's manifest. */
function entryOf(manifest: Record<string, { file: string; css?: string[]; isEntry?: boolean }>) {
  const entry = Object.values(manifest).find(({ isEntry }) => isEntry);
  if (entry === undefined) throw new Error('The build has no entry.');
  const name = (file: string) => path.basename(file);
  return { script: name(entry.file), styles: (entry.css ?? []).map(name) };
}

function sha256(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}
