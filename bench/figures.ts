import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { cpus } from 'node:os';
import path from 'node:path';
import { root } from '../runtime/root';
import { measured_folder } from './programs';
import type { Row } from './row';

/** Figures of one version by their measure, of the run that recorded each. */
type Version = Record<string, { figure: string; ratio?: number; machine: string; date: string }>;

/** The last recorded run, and that of a version by its commit. */
export type Figures = Record<string, Version>;

const file = path.join(root, 'bench/figures.json');

/** What `npm run bench -- --record` kept. */
export function keptFigures(): Figures {
  return existsSync(file) ? JSON.parse(readFileSync(file, 'utf8')) : {};
}

/** The versions before this one, oldest first, and how a measure stood in each. */
export function before(kept: Figures, { measure }: Row): string[] {
  return versionsOf(kept).map((name) => {
    const found = kept[name]?.[measure];
    if (found === undefined) return '';
    return found.ratio === undefined ? found.figure : `${found.ratio.toFixed(2)}: ${found.figure}`;
  });
}

export function versionsOf(kept: Figures): string[] {
  return Object.keys(kept).sort((a, b) => Number(a === 'last') - Number(b === 'last'));
}

/** Keeps figures as the last ones, or under the commit of the other version that was measured. */
export function record(rows: readonly Row[]): void {
  const kept = keptFigures();
  const name = measured_folder === root ? 'last' : commitOf(measured_folder);
  const version = { ...kept[name] };
  const date = new Date().toISOString().slice(0, 10);
  for (const { measure, figure, ratio } of rows)
    version[measure] = { figure, ...(ratio !== undefined && { ratio }), machine: machine(), date };
  writeFileSync(file, `${JSON.stringify({ ...kept, [name]: version }, null, 2)}\n`);
}

export function machine(): string {
  const cpu = cpus()[0]?.model ?? 'unknown processor';
  return `Node ${process.version}, ${cpus().length} x ${cpu}`;
}

function commitOf(cwd: string): string {
  return execFileSync('git', ['rev-parse', '--short=7', 'HEAD'], { cwd, encoding: 'utf8' }).trim();
}
