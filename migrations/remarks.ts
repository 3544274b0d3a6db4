import { migrationNames, migrationText } from './files';

/**
 * What the migrations say of the objects that they make, for the catalogue keeps neither comments
 * nor an order.
 */
export interface Remarks {
  /**
   * The comment of an object by its key: `table wallets`, `column wallets.seq`, `function credit`.
   */
  comments: Map<string, string>;
  /**
   * Where the newest text of a table, type or function stands: a number that grows in the order of
   * the migrations.
   */
  places: Map<string, number>;
  /**
   * The migration that first made a table, type or function, in any of its versions (`reserve` for
   * `reserve_2`).
   */
  origins: Map<string, string>;
  /** What the head of each migration says of the whole. */
  heads: Map<string, string>;
}

const LINES_MAX = 100_000;

// A comment stands directly above what it is about.
const created = /^create (?:or replace )?(table|type|function|trigger|(?:unique )?index) (\w+)/;
const altered = /^alter table (\w+)(?: add column (\w+))?/;
const member = /^ {2}(?:add column |constraint )?(\w+) /;
const commented =
  /^comment on (function|type|column) (\w+(?:\.\w+)?)(?:\([^)]*\))? is\s+'((?:[^']|'')*)';/gm;

export async function readRemarks(): Promise<Remarks> {
  const found: Remarks = {
    comments: new Map(),
    places: new Map(),
    origins: new Map(),
    heads: new Map(),
  };
  for (const [index, name] of (await migrationNames()).entries()) {
    const text = await migrationText(name);
    const [, head] = /^((?:-- .*\n)+)\n/.exec(text) ?? [];
    found.heads.set(name, words(head?.trimEnd().split('\n') ?? []));
    readFile(found, { name, text, place: index * LINES_MAX });
    for (const [, kind, about, said = ''] of text.matchAll(commented))
      found.comments.set(`${kind} ${about}`, said.replaceAll("''", "'").replaceAll('\n', ' '));
  }
  return found;
}

/** A function's name without the number of its version. */
export function baseName(name: string): string {
  return name.replace(/_\d+$/, '');
}

function readFile(found: Remarks, file: { name: string; text: string; place: number }): void {
  let comment: string[] = [];
  let owner: string | undefined;
  for (const [at, line] of file.text.split('\n').entries()) {
    if (/^ *-- /.test(line)) {
      comment.push(line);
      continue;
    }
    const made = subjectOf(line, owner);
    if (made && (comment.length > 0 || made.is_whole)) found.comments.set(made.key, words(comment));
    if (made?.is_whole) {
      found.places.set(made.key, file.place + at);
      const origin = baseName(made.key);
      if (!found.origins.has(origin)) found.origins.set(origin, file.name);
    }
    owner = made?.owner ?? (/^\)|;$/.test(line) ? undefined : owner);
    comment = [];
  }
}

interface Subject {
  key: string;
  is_whole: boolean;
  /** The table or type whose members the next lines name. */
  owner?: string | undefined;
}

function subjectOf(line: string, owner: string | undefined): Subject | undefined {
  const [, kind = '', name = ''] = created.exec(line) ?? [];
  if (kind) {
    const opens = line.endsWith('(') && (kind === 'table' || kind === 'type');
    const key = `${kind.replace('unique ', '')} ${name}`;
    return { key, is_whole: true, owner: opens ? name : undefined };
  }
  const [, table, column] = altered.exec(line) ?? [];
  if (column) return { key: `column ${table}.${column}`, is_whole: false };
  if (table) return { key: `alter ${table}`, is_whole: false, owner: table };
  const [, part] = (owner && member.exec(line)) || [];
  return part ? { key: `column ${owner}.${part}`, is_whole: false, owner } : undefined;
}

function words(lines: string[]): string {
  return lines.map((line) => line.replace(/^ *-- /, '')).join(' ');
}
