import codes from 'currency-codes';
import { decimalText, NANOS_PER_UNIT } from '../money';

/** The two payment providers, by the names of the specification. */
export const providerNames = ['payment_provider_a', 'payment_provider_b'] as const;

export type ProviderName = (typeof providerNames)[number];

interface Currencies {
  /** The currencies that a buyer can pay in. */
  supported: readonly string[];
  /** Decimals of an amount on this provider's wire, if they are not 2. */
  digits: Readonly<Record<string, number>>;
  /** Amounts on the wire are multiples of this many of its smallest units, if that is not 1. */
  multiples: Readonly<Record<string, bigint>>;
}

const list = (text: string) => text.split(' ');
const each = <Value>(text: string, value: Value): Record<string, Value> =>
  Object.fromEntries(list(text).map((currency) => [currency, value]));

const currencies: Record<ProviderName, Currencies> = {
  // PayPal: developer.paypal.com/docs/api/reference/currency-codes. Decimals in HUF, JPY and TWD
  // are an error there.
  payment_provider_a: {
    supported: list(
      'AUD BRL CAD CHF CNY CZK DKK EUR GBP HKD HUF ILS JPY MXN MYR NOK NZD PHP PLN SEK SGD THB TWD USD',
    ),
    digits: each('HUF JPY TWD', 0),
    multiples: {},
  },
  // Stripe: docs.stripe.com/currencies. Not ISO 4217: MGA has no decimals; ISK and UGX have two,
  // which must be 00; the last of three decimals must be 0; HUF and TWD have two for charges.
  payment_provider_b: {
    supported: list(
      `AED AFN ALL AMD ANG AOA ARS AUD AWG AZN BAM BBD BDT BHD BIF BMD BND BOB BRL BSD BWP BYN BZD CAD CDF CHF CLP CNY COP CRC
       CVE CZK DJF DKK DOP DZD EGP ETB EUR FJD FKP GBP GEL GIP GMD GNF GTQ GYD HKD HNL HTG HUF IDR ILS INR ISK JMD JOD JPY KES
       KGS KHR KMF KRW KWD KYD KZT LAK LBP LKR LRD LSL MAD MDL MGA MKD MMK MNT MOP MUR MVR MWK MXN MYR MZN NAD NGN NIO NOK NPR
       NZD OMR PAB PEN PGK PHP PKR PLN PYG QAR RON RSD RUB RWF SAR SBD SCR SEK SGD SHP SLE SOS SRD SZL THB TJS TND TOP TRY TTD
       TWD TZS UAH UGX USD UYU UZS VND VUV WST XAF XCD XOF XPF YER ZAR ZMW`.replace(/\s+/g, ' '),
    ),
    digits: {
      ...each('BIF CLP DJF GNF JPY KMF KRW MGA PYG RWF VND VUV XAF XOF XPF', 0),
      ...each('BHD JOD KWD OMR TND', 3),
    },
    multiples: { ...each('BHD JOD KWD OMR TND', 10n), ...each('ISK UGX', 100n) },
  },
};

// The least that can be charged, in hundredths of a unit, as Stripe states it; 0.50 if it states
// none. Below it a payment is eaten by its fee, so provider A, which states none, has the same.
const LEAST = 50n;
const least: Readonly<Record<string, bigint>> = {
  AED: 200n,
  CZK: 1_500n,
  DKK: 250n,
  GBP: 30n,
  HKD: 400n,
  HUF: 17_500n,
  JPY: 5_000n,
  KRW: 5_000n,
  MXN: 1_000n,
  MYR: 200n,
  NOK: 300n,
  PLN: 200n,
  RON: 200n,
  SEK: 300n,
  THB: 1_000n,
};

/** The currencies that a provider can take. */
export function currenciesOf(provider: ProviderName): readonly string[] {
  return currencies[provider].supported;
}

function digitsOf(provider: ProviderName, currency: string): number {
  return currencies[provider].digits[currency] ?? 2;
}

function unitNanos(digits: number): bigint {
  return NANOS_PER_UNIT / 10n ** BigInt(digits);
}

/**
 * The smallest step of a payment: every amount is a multiple of it. Without a provider: the
 * currency's own minor unit.
 */
export function stepNanos(provider: ProviderName | undefined, currency: string): bigint {
  if (provider === undefined) return unitNanos(codes.code(currency)?.digits ?? 2);
  const multiple = currencies[provider].multiples[currency] ?? 1n;
  return unitNanos(digitsOf(provider, currency)) * multiple;
}

/** The least that can be paid at once. */
export function minimumNanos(provider: ProviderName, currency: string): bigint {
  const wanted = ((least[currency] ?? LEAST) * NANOS_PER_UNIT) / 100n;
  const step = stepNanos(provider, currency);
  return ((wanted + step - 1n) / step) * step;
}

/**
 * An amount as the provider writes it: `12.50` at A, a whole number of smallest units (`1250`) at
 * B.
 */
export function toWire(provider: ProviderName, currency: string, nanos: bigint): string {
  if (nanos <= 0n || nanos % stepNanos(provider, currency) !== 0n)
    throw new Error(`${provider} cannot take ${decimalText(nanos)} ${currency}.`);
  const digits = digitsOf(provider, currency);
  const units = (nanos / unitNanos(digits)).toString();
  if (provider === 'payment_provider_b' || digits === 0) return units;
  const padded = units.padStart(digits + 1, '0');
  return `${padded.slice(0, -digits)}.${padded.slice(-digits)}`;
}

/**
 * The nanos of an amount that the provider wrote. It is read as it stands, even if we would write
 * it otherwise.
 */
export function fromWire(provider: ProviderName, currency: string, text: string | number): bigint {
  const [, sign, whole, fraction = ''] = /^(-?)(\d{1,13})(?:\.(\d{1,9}))?$/.exec(`${text}`) ?? [];
  if (whole === undefined) throw new Error(`${provider} wrote an amount that is no number.`);
  const unit =
    provider === 'payment_provider_b' ? unitNanos(digitsOf(provider, currency)) : NANOS_PER_UNIT;
  const parts = BigInt(whole + fraction) * unit;
  const nanos = parts / 10n ** BigInt(fraction.length);
  return sign ? -nanos : nanos;
}
