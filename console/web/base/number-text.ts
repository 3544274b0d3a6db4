import { DECIMALS, decimalText, nanosOf } from './decimals';

// Beyond this a number of JavaScript does not keep all decimals of an amount.
const TYPED_MAX = 1e12;

/**
 * The number that somebody typed; undefined if it is empty, no number, negative, above `TYPED_MAX`,
 * or has digits that would be lost: nine decimals are kept, as far as a number holds them. Points
 * and commas are read as people write them: `1,234.5` and `1.234,5` are one amount, `1,000` is a
 * thousand unless the reader's decimals begin with a comma, and `10,50` is ten and a half
 * everywhere.
 * @param mark what begins the decimals in the reader's locale
 */
export function numberIn(typed: number | string, mark: string): number | undefined {
  if (typeof typed === 'number') return isAmount(typed) ? typed : undefined;
  const text = plainText(typed, mark);
  return text !== undefined && isAmount(Number(text)) && isKept(text) ? Number(text) : undefined;
}

/** True for a number that somebody typed, of whose digits some would be lost. */
export function isTooFine(typed: string, mark: string): boolean {
  const text = plainText(typed, mark);
  return text !== undefined && isAmount(Number(text)) && !isKept(text);
}

/**
 * A number as it stands in a field before anybody types: `numberIn` reads the same from it, also
 * after a digit of it was changed.
 * @param mark what begins the decimals in the reader's locale
 */
export function numberText(number: number, mark: string): string {
  return decimalText(number).replace('.', mark);
}

function isAmount(number: number): boolean {
  return number >= 0 && number <= TYPED_MAX;
}

/** True if the number of a plain text has all of its digits. */
function isKept(text: string): boolean {
  const [whole = '', part = ''] = text.split('.');
  const kept = part.replace(/0+$/, '');
  if (kept.length > DECIMALS) return false;
  return BigInt(`${whole}${kept.padEnd(DECIMALS, '0')}`) === nanosOf(Number(text));
}

/** What was typed with a point before its decimals and nothing else; undefined: no number. */
function plainText(typed: string, mark: string): string | undefined {
  const text = typed.replaceAll(/[\s'’]/g, '');
  if (!/^\d*(?:[.,]\d*)*$/.test(text) || !/\d/.test(text)) return undefined;
  const parts = text.split(/[.,]/);
  const marks = [...text].filter((one) => one === '.' || one === ',');
  if (marks.length < 2) {
    const [whole = '', part = ''] = parts;
    const is_group = marks[0] !== mark && part.length === 3 && /^[1-9]\d{0,2}$/.test(whole);
    return is_group ? whole + part : text.replace(',', '.');
  }
  const last = marks.at(-1);
  const is_mixed = marks[0] !== last;
  const groups = is_mixed ? parts.slice(0, -1) : parts;
  const are_one = marks.slice(0, -1).every((one) => one === marks[0]);
  if (!are_one || !areGroups(groups)) return undefined;
  return groups.join('') + (is_mixed ? `.${parts.at(-1)}` : '');
}

/** Groups of three, or of two before the last one, as India writes them. */
function areGroups([first = '', ...others]: readonly string[]): boolean {
  const last = others.at(-1);
  const is_first = /^[1-9]\d{0,2}$/.test(first);
  return (
    is_first && last?.length === 3 && others.every(({ length }) => length === 2 || length === 3)
  );
}
