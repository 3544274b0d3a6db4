import { createHash } from 'node:crypto';
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { bundleWorkflows } from '../../workers/bundle';

let folder: string;
const before = process.env.XDG_CACHE_HOME;

beforeAll(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'svc-bundle-'));
});
afterAll(async () => {
  if (before === undefined) delete process.env.XDG_CACHE_HOME;
  else process.env.XDG_CACHE_HOME = before;
  await rm(folder, { recursive: true, force: true });
});

test('a bundle is made once and kept; what was kept of other sources goes', async () => {
  process.env.XDG_CACHE_HOME = folder;
  const kept = path.join(folder, 'svc');
  await mkdir(kept);
  await writeFile(path.join(kept, 'workflows-of-others.js'), 'old');
  await writeFile(path.join(kept, 'workflows-of-others.js.unfinished'), 'old');
  const made = await bundleWorkflows();
  expect(made).toContain('reservationLifetimes');
  // Workflows take types from there and nothing that runs.
  expect(made).not.toMatch(/\/(?:domain|activities)\/[\w-]+\.ts/);
  const [name = '', ...more] = await readdir(kept);
  expect([name, more]).toEqual([expect.stringMatching(/^workflows-[0-9a-f]{32}\.js$/), []]);
  const text = await readFile(path.join(kept, name), 'utf8');
  expect(text.slice(text.indexOf('\n') + 1)).toBe(made);
  const sum = createHash('sha256').update('kept').digest('hex');
  await writeFile(path.join(kept, name), `${sum}\nkept`);
  expect(await bundleWorkflows()).toBe('kept');
  await writeFile(path.join(kept, name), text.slice(0, -100));
  expect(await bundleWorkflows()).toBe(made);
});

test('where nothing can be kept, the bundle is made all the same', async () => {
  process.env.XDG_CACHE_HOME = path.join(folder, 'a-file');
  await writeFile(process.env.XDG_CACHE_HOME, '');
  expect(await bundleWorkflows()).toContain('reservationLifetimes');
});
