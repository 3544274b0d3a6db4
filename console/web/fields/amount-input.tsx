import { TextInput } from '@mantine/core';
import type { ReactNode } from 'react';
import { decimalText } from '../base/decimals';
import { typedNumber } from '../base/typed';
import { moneyText } from '../parts/money';

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
  const text = typeof value === 'number' ? decimalText(value) : value;
  const typed = typedNumber(value);
  const is_wrong = typed === undefined && text.trim() !== '';
  const is_long = typed !== undefined && (decimalText(typed).split('.')[1] ?? '').length > digits;
  const wrong = is_wrong
    ? 'This is no amount.'
    : is_long
      ? `An amount has ${digits === 0 ? 'no decimals' : `at most ${digits} decimals`} here.`
      : error;
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

/** The amount as the screens write it; all its digits where those would cut some off. */
function meant(typed: number, currency: string | undefined): string {
  const text = decimalText(typed);
  if (currency === undefined) return `= ${text}`;
  const shown = moneyText(typed, currency);
  return (text.split('.')[1] ?? '').length > 2 ? `= ${text} ${currency}` : `= ${shown}`;
}
