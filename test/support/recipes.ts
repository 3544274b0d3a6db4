import { execFile } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';
import { root } from '../../runtime/root';

// The fences of README and docs/: recipes that tests run, and texts that are only read.

/** The README first, as its recipes want a fresh demo and set the variables of all others. */
export const documents: readonly string[] = [
  'README.md',
  ...readdirSync(path.join(root, 'docs'))
    .filter((name) => name.endsWith('.md'))
    .toSorted()
    .map((name) => `docs/${name}`),
];

interface Block {
  /** `docs/limits.md:18` */
  place: string;
  language: string;
  text: string;
  /** The comment above the fence: the runner's instruction for the block. */
  mark: string | undefined;
}

export function textOf(file: string): string {
  return readFileSync(path.join(root, file), 'utf8');
}

export function blocksOf(file: string): Block[] {
  const text = textOf(file);
  const fences = text.matchAll(/^(?:<!-- recipe: (.+) -->\n)?```(.*)\n([\s\S]*?)^```$/gm);
  return [...fences].map(({ 1: mark, 2: language = '', 3: inside = '', index }) => {
    const place = `${file}:${text.slice(0, index).split('\n').length}`;
    return { place, language, text: inside, mark };
  });
}

export interface RecipeStep {
  command: string;
  /** It answers only after steps that follow. */
  waits: boolean;
  promised: string;
}

const WAITS = '(waits)\n';

/**
 * The commands of a block. In a console one stands behind each `$ `, with the lines that it goes on
 * over, then its output.
 */
export function stepsOf({ language, text }: Block): RecipeStep[] {
  if (language === 'sh') return [{ command: text, waits: false, promised: '' }];
  return text.split(/^\$ /m).flatMap((shown) => {
    if (shown.trim() === '') return [];
    const lines = shown.split('\n');
    let end = 1;
    while (end < lines.length && goesOn(lines.slice(0, end).join('\n'), lines[end] as string)) {
      end += 1;
    }
    const command = lines.slice(0, end).join('\n');
    const output = lines.slice(end).join('\n');
    const waits = output.startsWith(WAITS);
    return [{ command, waits, promised: (waits ? output.slice(WAITS.length) : output).trim() }];
  });
}

function goesOn(command: string, next: string): boolean {
  return command.endsWith('\\') || command.split("'").length % 2 === 0 || next.startsWith('    ');
}

/** What a script prints. A cost that is pending, as on a busy machine, is asked for again. */
export async function printedBy(script: string, env: Record<string, string>): Promise<string> {
  for (let left = 5; ; left -= 1) {
    const { stdout } = await promisify(execFile)(
      process.execPath,
      ['--input-type=module', '-e', script],
      { cwd: root, env: { ...process.env, ...env } },
    );
    if (left === 0 || !stdout.startsWith('pending')) return stdout;
  }
}

// Texts that differ from run to run, and the patterns that may stand in their place.
const volatile: readonly [RegExp, string][] = [
  [/…|\.\.\.(?=["},\]])/, '[\\s\\S]*?'],
  [/(?<=[a-z]_)(?=[a-f]*\d)[0-9a-f]{4,}/, '\\w+'],
  [/\d{4}-\d\d-\d\dT[\d:.]+Z/, '\\d{4}-\\d\\d-\\d\\dT[\\d:.]+Z'],
  [/\d{4}-\d\d-\d\d \d\d:\d\d UTC/, '\\d{4}-\\d\\d-\\d\\d \\d\\d:\\d\\d UTC'],
  [/(?<=127\.0\.0\.1:)\d+/, '\\d+'],
  [/\b[0-9a-f]{16}\b/, '[0-9a-f]{16}'],
  [/\b[0-9A-Z]{17}\b/, '[0-9A-Z]{17}'],
  [/(?<="checkout_state": ")[^"]+/, '[^"]+'],
  [/(?<="(?:seq|balance|balance_after|wallet_balance_after|shortfall)": ?)[-\d.e]+/, '[-\\d.e]+'],
  [/(?<=Reset: )\d+|(?<=retry-after: )\d+|(?<=request in )\d+/, '\\d+'],
];
const anyVolatile = new RegExp(volatile.map(([one]) => one.source).join('|'), 'g');

/** True if a command printed the output of its recipe, ids, times and balances aside. */
export function keeps(promised: string, printed: string): boolean {
  let source = '';
  let from = 0;
  for (const { 0: found, index } of promised.matchAll(anyVolatile)) {
    source += escaped(promised.slice(from, index)) + placeholderOf(promised, found, index);
    from = index + found.length;
  }
  source += escaped(promised.slice(from));
  return new RegExp(`^${source}$`).test(printed.trim());
}

function placeholderOf(text: string, found: string, index: number): string {
  const [, placeholder = ''] = volatile.find(([one]) => {
    const sticky = new RegExp(one.source, 'y');
    sticky.lastIndex = index;
    return sticky.exec(text)?.[0] === found;
  }) as [RegExp, string];
  return placeholder;
}

function escaped(text: string): string {
  return text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
}
