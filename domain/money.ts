import { AppError } from './errors';

/** Nanos in one major unit: money is an integer of 10^-9 of the currency's major unit. */
export const NANOS_PER_UNIT = 1_000_000_000n;

/**
 * The most that one amount or wallet may hold: 9e9 units, so that every sum fits a PostgreSQL
 * bigint.
 */
export const NANOS_MAX = 9_000_000_000n * NANOS_PER_UNIT;

const DIGITS_MAX = 15;
const DECIMALS_MAX = 9;

/**
 * Nanos of a JSON number of major units, read by its shortest decimal text. Throws `invalid_field`
 * (more than 15 significant digits or 9 decimals, not finite) or `amount_too_large`, naming
 * `param`.
 */
export function toNanos(amount: number, param: string): bigint {
  if (!Number.isFinite(amount)) {
    throw new AppError('invalid_field', `${param} must be a finite number.`, { param });
  }
  const { negative, digits, scale } = decimalParts(amount);
  if (digits.length - scale > 10) throw tooLarge(param);
  if (digits.length > DIGITS_MAX || scale > DECIMALS_MAX) {
    throw new AppError(
      'invalid_field',
      `${param} may have at most ${DIGITS_MAX} significant digits and ${DECIMALS_MAX} decimals.`,
      { param },
    );
  }
  const nanos = BigInt(digits) * 10n ** BigInt(DECIMALS_MAX - scale);
  if (nanos > NANOS_MAX) throw tooLarge(param);
  return negative ? -nanos : nanos;
}

/**
 * The JSON number of major units: exact to the nano below 8,388,608, above it the nearest double.
 */
export function fromNanos(nanos: bigint): number {
  // Both are exact integers of doubles here, so the quotient is the double nearest to the decimal.
  if (nanos <= SAFE && nanos >= -SAFE) return Number(nanos) / Number(NANOS_PER_UNIT);
  return Number(decimalText(nanos));
}

const SAFE = BigInt(Number.MAX_SAFE_INTEGER);

/** The exact decimal text of nanos, for people and logs: `-0.0000001`, `12.5`. */
export function decimalText(nanos: bigint): string {
  const magnitude = nanos < 0n ? -nanos : nanos;
  const fraction = (magnitude % NANOS_PER_UNIT).toString().padStart(9, '0').replace(/0+$/, '');
  const text = `${magnitude / NANOS_PER_UNIT}${fraction ? `.${fraction}` : ''}`;
  return nanos < 0n ? `-${text}` : text;
}

function tooLarge(param: string): AppError {
  return new AppError('amount_too_large', `${param} may be at most ${decimalText(NANOS_MAX)}.`, {
    param,
  });
}

/**
 * Shortest decimal text of a double as digits and the number of them behind the point; 1e-7 and
 * 1e21 included.
 */
function decimalParts(amount: number): { negative: boolean; digits: string; scale: number } {
  const [mantissa = '0', exponent = '0'] = String(Math.abs(amount)).split('e');
  const [whole = '0', fraction = ''] = mantissa.split('.');
  const shift = fraction.length - Number(exponent);
  const digits = `${whole}${fraction}`.replace(/^0+(?=\d)/, '');
  const scale = Math.max(shift, 0);
  return { negative: amount < 0, digits: shift < 0 ? digits + '0'.repeat(-shift) : digits, scale };
}

/** In USD: what a provider says that one call cost is a mistake above this. */
export const PROVIDER_COST_MAX_USD = 10_000;
