// Sums and differences of amounts, exact: a number of JavaScript is only read and shown, never
// added. An amount has nine decimals at most.

/** The decimals that an amount has at most. */
export const DECIMALS = 9;

/** To a whole unit of the currency's smallest coin, `digits` after the point, and never less. */
export function roundedUp(amount: number, digits: number): number {
  const step = 10n ** BigInt(DECIMALS - digits);
  return amountOf(((nanosOf(amount) + step - 1n) / step) * step);
}

/**
 * The decimals of an amount as the API wrote them: the shortest text that is read as this number.
 * More digits would be those of the nearest binary fraction: 99999999.1 is 99999999.099999994.
 */
export function decimalText(amount: number): string {
  const text = String(amount);
  const part = text.split('.')[1] ?? '';
  return text.includes('e') || part.length > DECIMALS ? trimmed(amount.toFixed(DECIMALS)) : text;
}

/** Billionths of an amount in major units. */
export function nanosOf(amount: number): bigint {
  const [whole = '0', part = ''] = decimalText(amount).split('.');
  return BigInt(`${whole}${part.padEnd(DECIMALS, '0')}`);
}

/** The amount in major units, to be shown. */
export function amountOf(nanos: bigint): number {
  return Number(decimalOf(nanos, DECIMALS));
}

/** The exact sum of decimal texts, without trailing zeros: `['0.1', '0.25']` is `0.35`. */
export function sumText(texts: readonly string[]): string {
  const digits = Math.max(0, ...texts.map((text) => (text.split('.')[1] ?? '').length));
  const scaled = texts.map((text) => {
    const [whole = '0', part = ''] = text.split('.');
    return BigInt(`${whole}${part.padEnd(digits, '0')}`);
  });
  const sum = scaled.reduce((all, one) => all + one, 0n);
  return trimmed(decimalOf(sum, digits));
}

/** A decimal text without zeros that say nothing: `0.0800` is `0.08`. */
export function trimmed(text: string): string {
  return text.includes('.') ? text.replace(/\.?0+$/, '') : text;
}

function decimalOf(scaled: bigint, digits: number): string {
  const sign = scaled < 0n ? '-' : '';
  const text = (scaled < 0n ? -scaled : scaled).toString().padStart(digits + 1, '0');
  const whole = text.slice(0, text.length - digits);
  return digits === 0 ? `${sign}${whole}` : `${sign}${whole}.${text.slice(-digits)}`;
}
