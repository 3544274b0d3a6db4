import { TextInput } from '@mantine/core';
import type { ReactNode } from 'react';
import { decimalText } from '../base/decimals';
import { readText, typedNumber, typedText, untypedWords } from '../base/typed';
import { inputDigits, moneyText } from '../parts/money';

/**
 * A field for an amount. It takes points and commas as people write them, and says below itself how
 * it reads them, so that nobody sends 1 for 1,000. Read what it holds by `typedNumber`.
 */
export function AmountInput({
  value,
  onChange,
  currency,
  digits = 9,
  error,
  ...rest
}: {
  label: string;
  description?: ReactNode;
  value: number | string;
  onChange: (typed: string) => void;
  /** Undefined: the amount is in no single currency, and is shown as a number. */
  currency?: string | undefined;
  /** It may have so many after the point. */
  digits?: number;
  error?: string | undefined;
  required?: boolean;
  readOnly?: boolean;
  'data-autofocus'?: boolean;
}) {
  const text = typeof value === 'number' ? typedText(value) : value;
  const typed = typedNumber(value);
  const wrong = problemOf(text, typed, digits) ?? error;
  return (
    <TextInput
      {...rest}
      inputMode="decimal"
      autoComplete="off"
      value={text}
      onChange={(event) => onChange(event.currentTarget.value)}
      error={wrong}
      inputContainer={(input) => (
        <>
          {input}
          <span className="meant" aria-live="polite">
            {typed !== undefined && !wrong && meant(typed, currency)}
          </span>
        </>
      )}
    />
  );
}

function problemOf(text: string, typed: number | undefined, digits: number): string | undefined {
  if (typed === undefined) return text.trim() === '' ? undefined : untypedWords(text);
  if (decimalsOf(typed) <= digits) return undefined;
  return `An amount has ${digits === 0 ? 'no decimals' : `at most ${digits} decimals`} here.`;
}

/** The amount as the screens write it; all its digits if those would cut some off. */
function meant(typed: number, currency: string | undefined): string {
  if (currency === undefined) return `= ${readText(typed)}`;
  const is_cut = decimalsOf(typed) > inputDigits(currency);
  return `= ${is_cut ? `${readText(typed)} ${currency}` : moneyText(typed, currency)}`;
}

function decimalsOf(amount: number): number {
  return (decimalText(amount).split('.')[1] ?? '').length;
}
