import { decimalText } from './decimals';
import { decimal_mark, locale } from './locale';
import { isTooFine, numberIn, numberText } from './number-text';

/** The number that a field holds, by the reader's own decimal mark; undefined if it holds none. */
export function typedNumber(typed: number | string): number | undefined {
  return numberIn(typed, decimal_mark);
}

/** What a field holds before anybody types, by the reader's own decimal mark. */
export function typedText(number: number): string {
  return numberText(number, decimal_mark);
}

/** Why a field that is not empty holds no amount. */
export function untypedWords(typed: string): string {
  return isTooFine(typed, decimal_mark)
    ? 'This has more digits than an amount can have.'
    : 'This is no amount.';
}

const format = new Intl.NumberFormat(locale, { maximumFractionDigits: 9 });

/** A number as the reader writes it, with all its decimals and with its thousands apart. */
export function readText(number: number): string {
  return format.format(decimalText(number) as `${number}`);
}
