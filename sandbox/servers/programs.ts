import { randomUUID } from 'node:crypto';
import { existsSync, rmSync } from 'node:fs';
import { chmod, copyFile, mkdir, mkdtemp, rename } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';

/**
 * Finds a program in the first source that has a usable one. The error lists the sources that were
 * tried, a line each.
 */
export async function firstUsable<Program>(
  sources: readonly [string, () => Promise<string>][],
  usable: (command: string) => Promise<Program>,
): Promise<Program> {
  const tried: string[] = [];
  for (const [source, find] of sources) {
    try {
      return await usable(await find());
    } catch (error) {
      tried.push(`  - ${source}: ${reason(error)}`);
    }
  }
  throw new Error(tried.join('\n'));
}

/** The first program of these names on the PATH. */
export function onPath(...names: string[]): string {
  const folders = (process.env.PATH ?? '').split(path.delimiter).filter(Boolean);
  const found = names
    .flatMap((name) => folders.map((folder) => path.join(folder, name)))
    .find((file) => existsSync(file));
  if (!found) throw new Error('there is none.');
  return found;
}

/**
 * Fetches a program into a scratch folder and moves it to its place at once, so that two starts
 * cannot spoil it. If nothing can be kept there, it runs from where it was fetched to, which goes
 * with this process.
 */
export async function intoCache(
  cached: string,
  fetchInto: (scratch: string) => Promise<string>,
): Promise<string> {
  const scratch = await mkdtemp(path.join(tmpdir(), 'svc-program-'));
  const clean = () => rmSync(scratch, { recursive: true, force: true });
  process.once('exit', clean);
  const program = await fetchInto(scratch);
  await chmod(program, 0o755);
  try {
    await mkdir(path.dirname(cached), { recursive: true });
    // Copied first: the scratch folder may be on another file system.
    const beside = `${cached}.${randomUUID()}`;
    await copyFile(program, beside);
    await rename(beside, cached);
  } catch {
    return program;
  }
  process.off('exit', clean);
  clean();
  return cached;
}

function reason(error: unknown): string {
  const { message, stderr } = error as { message: string; stderr?: string };
  const lines = (stderr || message).trim().split('\n');
  return lines.at(-1) ?? 'failed.';
}
