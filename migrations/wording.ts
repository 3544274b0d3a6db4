const COLUMNS_MAX = 100;

/** A comment in lines of at most 100 columns, each behind the indent and two dashes. */
export function remark(text: string | undefined, indent = ''): string {
  return text ? wrapped(text.split(' '), `${indent}-- `, `${indent}-- `) : '';
}

// Lines are not broken at it.
const FIRM_SPACE = '\u00a0';

/** A list of parameters, to be broken between two of them only. */
export function parameters(list: string): string {
  return list
    .split(', ')
    .map((parameter) => parameter.replaceAll(' ', FIRM_SPACE))
    .join(', ');
}

/**
 * A declaration in lines of at most 100 columns; its own line breaks stay, and a literal stays
 * whole.
 */
export function declaration(text: string, indent = ''): string {
  const [first = '', ...more] = text.split('\n');
  const wordsOf = (line: string) => line.match(/(?:'[^']*'|[^ '])+/g) ?? [];
  const next = `${indent}  `;
  const lines = [
    wrapped(wordsOf(first), indent, next),
    ...more.map((line) => wrapped(wordsOf(line), indent && next, next)),
  ];
  return lines.join('').replaceAll(FIRM_SPACE, ' ');
}

function wrapped(words: string[], first: string, next: string): string {
  const lines: string[] = [];
  let line = first + words[0];
  for (const word of words.slice(1)) {
    if (line.length + 1 + word.length > COLUMNS_MAX) {
      lines.push(line);
      line = next + word;
    } else line += ` ${word}`;
  }
  return [...lines, line, ''].join('\n');
}

/** The parts of a declaration: in one line if they fit into it, else in a line each. */
export function inLines(parts: string[]): string {
  const line = parts.join(' ');
  return line.length < COLUMNS_MAX - 2 ? line : parts.join('\n');
}

/**
 * An expression, declaration or statement as the catalogue words it, in the words of the
 * migrations.
 */
export function plain(text: string): string {
  const lower = text
    .split(/('(?:[^']|'')*')/)
    .map((part, index) => (index % 2 === 0 ? part.toLowerCase().replace(/\s+/g, ' ') : part))
    .join('');
  return typeName(lower)
    .replace(/('[^']*')::text(?!\[)/g, '$1')
    .replace(/\b(\d+)::numeric/g, '$1')
    .replace(/ = any \(array\[([^\]]*)\]\)/g, ' in ($1)')
    .replace(/ default null::\w+/g, ' default null')
    .replaceAll('( ', '(')
    .replace(/ using btree /, ' ')
    .replace(/ on (?:only )?(?:public\.)?/, ' on ')
    .replace(/ \(\(([^()]*)\)\)/g, ' ($1)');
}

export function typeName(type: string): string {
  return type.replace(/\btimestamp with time zone\b/g, 'timestamptz');
}
