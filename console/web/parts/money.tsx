import { Text, Tooltip } from '@mantine/core';
import { decimalText } from '../base/decimals';
import { locale } from '../base/locale';

/**
 * An amount as people read it, by their locale: `$99.99`. A price below a cent keeps three figures
 * that count, so that a call does not look free; an amount of money is never rounded up, but for
 * what is missing or what something costs at most.
 * @param amount major units
 */
export function moneyText(amount: number, currency: string, is_most = false): string {
  const digits = fractionDigits(currency);
  const is_tiny = amount !== 0 && Math.abs(amount) < 10 ** -digits;
  const style = { style: 'currency', currency } as const;
  // As text, so that what is cut off is of the amount and not of its nearest binary fraction.
  const text = decimalText(amount) as `${number}`;
  try {
    const figures = is_tiny
      ? { maximumSignificantDigits: 3 }
      : { minimumFractionDigits: digits, maximumFractionDigits: digits };
    return new Intl.NumberFormat(locale, {
      ...style,
      ...figures,
      roundingMode: is_most ? 'expand' : 'trunc',
    } as Intl.NumberFormatOptions).format(text);
  } catch {
    return exactText(amount, currency);
  }
}

/** The same for what is about so much: less than the smallest coin is called that. */
export function aboutText(amount: number, currency: string): string {
  const least = 10 ** -fractionDigits(currency);
  if (amount === 0 || Math.abs(amount) >= least) return `about ${moneyText(amount, currency)}`;
  return `less than ${moneyText(least, currency)}`;
}

/** All decimals of an amount: `99.999802 USD`. */
export function exactText(amount: number, currency: string): string {
  const text = decimalText(amount);
  return `${text === '-0' ? '0' : text} ${currency}`;
}

function fractionDigits(currency: string): number {
  try {
    const style = { style: 'currency', currency } as const;
    return new Intl.NumberFormat(locale, style).resolvedOptions().maximumFractionDigits ?? 2;
  } catch {
    return 2;
  }
}

/** The digits that an amount may have when it is typed: those of the currency. */
export function inputDigits(currency: string): number {
  return fractionDigits(currency);
}

/** An amount; the exact value is one hover, or one focus, away. */
export function Money({
  amount,
  currency,
  is_signed = false,
  is_most = false,
  is_about = false,
  ...style
}: {
  amount: number | null | undefined;
  currency: string;
  /** Shows the plus of what is added. */
  is_signed?: boolean;
  /** Rounds up: what is missing, or what something costs at most. */
  is_most?: boolean;
  /** It is no exact amount, such as a mean. */
  is_about?: boolean;
  fw?: number;
  size?: string;
  c?: string;
}) {
  if (amount === null || amount === undefined) return <Text component="span">–</Text>;
  const shown = is_about ? aboutText(amount, currency) : moneyText(amount, currency, is_most);
  const text = `${is_signed && amount > 0 ? '+' : ''}${shown}`;
  return (
    <Tooltip label={exactText(amount, currency)} events={{ hover: true, focus: true, touch: true }}>
      <Text component="span" inherit={style.size === undefined} className="figures" {...style}>
        {text}
      </Text>
    </Tooltip>
  );
}
