// Amounts of price lists as exact decimal text: `0.3`, never 0.30000000000000004.

/** A decimal without an exponent: digits, and how many of them stand behind the point. */
interface Decimal {
  digits: bigint;
  places: number;
}

// What a quotient keeps; a price says at most this many digits of a USD.
const QUOTIENT_PLACES = 12;
const EXPONENT_MAX = 30;

/**
 * A number of a file as decimal text, without an exponent or trailing zeros; undefined unless it is
 * a finite number, or a text of one, that is not negative. A double is written with the digits of
 * its literal, as no price has more than 15.
 */
export function decimalText(value: unknown): string | undefined {
  if (typeof value !== 'number' && typeof value !== 'string') return undefined;
  const parsed = parse(String(value).trim());
  return parsed === undefined ? undefined : text(parsed);
}

/** `text` × 10^`places`; `places` may be negative. */
export function shifted(amount: string, places: number): string {
  const { digits, places: own } = given(amount);
  return text({ digits, places: own - places });
}

export function plus(amount: string, other: string): string {
  const a = given(amount);
  const b = given(other);
  const places = Math.max(a.places, b.places);
  return text({ digits: atPlaces(a, places) + atPlaces(b, places), places });
}

export function times(amount: string, factor: string): string {
  const a = given(amount);
  const b = given(factor);
  return text({ digits: a.digits * b.digits, places: a.places + b.places });
}

/** `text` ÷ a whole number, rounded half up at 12 places. */
export function over(amount: string, divisor: number): string {
  const { digits, places } = given(amount);
  const by = BigInt(divisor) * 10n ** BigInt(Math.max(places, 0));
  const scaled = digits * 10n ** BigInt(QUOTIENT_PLACES + Math.max(-places, 0));
  return text({ digits: (2n * scaled + by) / (2n * by), places: QUOTIENT_PLACES });
}

/** Negative if `a` is less than `b`, 0 if they are equal. */
export function compared(a: string, b: string): number {
  const left = given(a);
  const right = given(b);
  const places = Math.max(left.places, right.places);
  const difference = atPlaces(left, places) - atPlaces(right, places);
  return difference < 0n ? -1 : difference > 0n ? 1 : 0;
}

function atPlaces({ digits, places }: Decimal, wanted: number): bigint {
  return digits * 10n ** BigInt(wanted - places);
}

function given(amount: string): Decimal {
  const parsed = parse(amount);
  if (parsed === undefined) throw new Error(`${amount} is no decimal.`);
  return parsed;
}

function parse(amount: string): Decimal | undefined {
  const match = /^(\d+)(?:\.(\d+))?(?:e([+-]?\d+))?$/i.exec(amount);
  if (match === null) return undefined;
  const [, whole = '', part = '', exponent = '0'] = match;
  if (Math.abs(Number(exponent)) > EXPONENT_MAX || whole.length + part.length > 40)
    return undefined;
  return { digits: BigInt(whole + part), places: part.length - Number(exponent) };
}

function text({ digits, places }: Decimal): string {
  if (places <= 0) return String(digits * 10n ** BigInt(-places));
  const all = String(digits).padStart(places + 1, '0');
  const part = all.slice(-places).replace(/0+$/, '');
  return part === '' ? all.slice(0, -places) : `${all.slice(0, -places)}.${part}`;
}
