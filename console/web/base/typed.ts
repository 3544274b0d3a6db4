import { decimal_mark } from './locale';
import { numberIn } from './number-text';

/** The number that a field holds, by the reader's own decimal mark; undefined if it holds none. */
export function typedNumber(typed: number | string): number | undefined {
  return numberIn(typed, decimal_mark);
}
