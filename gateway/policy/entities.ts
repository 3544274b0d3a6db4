// The names of characters in HTML that may hide a term: marks, white space, and what is not seen.

const marks = {
  amp: '&',
  lt: '<',
  gt: '>',
  quot: '"',
  apos: "'",
  commat: '@',
  period: '.',
  hyphen: '-',
  dash: '-',
  lowbar: '_',
  plus: '+',
  percnt: '%',
  bsol: '\\',
  sol: '/',
  num: '#',
  semi: ';',
  tab: '\t',
  newline: '\n',
};
const spaces =
  'nbsp nonbreakingspace ensp emsp emsp13 emsp14 numsp puncsp thinsp thinspace hairsp verythinspace mediumspace thickspace';
const nothing =
  'shy zwj zwnj lrm rlm zerowidthspace negativethinspace negativemediumspace negativethickspace negativeverythinspace nobreak applyfunction af invisibletimes it invisiblecomma ic';

/** What each name stands for, in lower case. */
export const entities: ReadonlyMap<string, string> = new Map([
  ...Object.entries(marks),
  ...spaces.split(' ').map((name): [string, string] => [name, ' ']),
  ...nothing.split(' ').map((name): [string, string] => [name, '']),
]);

// A name may be the beginning of a longer one, which is tried first.
const names = [...entities.keys()].sort((a, b) => b.length - a.length);

/** The names that count without their semicolon too, as an alternative of a regular expression. */
export const long_names = names.filter((name) => !isShort(name)).join('|');

/** Those that are words or their beginnings, and count only with it. */
export const short_names = names.filter(isShort).join('|');

function isShort(name: string): boolean {
  return name.length === 2 && name !== 'lt' && name !== 'gt';
}
