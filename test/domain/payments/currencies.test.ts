import codes from 'currency-codes';
import {
  currenciesOf,
  fromWire,
  minimumNanos,
  providerNames,
  stepNanos,
  toWire,
} from '../../../domain/payments/currencies';

const [A, B] = ['payment_provider_a', 'payment_provider_b'] as const;
const UNIT = 1_000_000_000n;

/** Nanos of a decimal text. */
function nanos(text: string): bigint {
  const [whole = '0', fraction = ''] = text.split('.');
  return BigInt(whole + fraction.padEnd(9, '0'));
}

test.each([
  [A, 'USD', '10', '10.00'],
  [A, 'USD', '0.05', '0.05'],
  [A, 'EUR', '1234567.89', '1234567.89'],
  [A, 'HUF', '500', '500'],
  [A, 'JPY', '500', '500'],
  [A, 'TWD', '500', '500'],
  [B, 'USD', '10', '1000'],
  [B, 'USD', '0.05', '5'],
  [B, 'JPY', '500', '500'],
  [B, 'KRW', '500', '500'],
  [B, 'MGA', '500', '500'],
  [B, 'HUF', '10.45', '1045'],
  [B, 'TWD', '800.45', '80045'],
  [B, 'ISK', '5', '500'],
  [B, 'UGX', '5', '500'],
  [B, 'KWD', '5.12', '5120'],
  [B, 'BHD', '0.01', '10'],
] as const)('%s writes %s %s as %s, and reads it back', (name, currency, amount, wire) => {
  expect(toWire(name, currency, nanos(amount))).toBe(wire);
  expect(fromWire(name, currency, wire)).toBe(nanos(amount));
  if (name === B) expect(fromWire(name, currency, Number(wire))).toBe(nanos(amount));
});

test.each([
  [A, 'USD', '10.001'],
  [A, 'HUF', '500.5'],
  [A, 'JPY', '0.5'],
  [A, 'TWD', '800.45'],
  [B, 'USD', '10.001'],
  [B, 'JPY', '0.5'],
  [B, 'MGA', '0.5'],
  [B, 'ISK', '5.5'],
  [B, 'UGX', '5.01'],
  [B, 'KWD', '5.124'],
  [A, 'USD', '0'],
  [B, 'USD', '0'],
] as const)('%s cannot take %s %s, and it is never rounded', (name, currency, amount) => {
  expect(() => toWire(name, currency, nanos(amount))).toThrow('cannot take');
});

test('what a provider wrote is read as it stands, also what we would never write', () => {
  expect(fromWire(A, 'USD', '10')).toBe(10n * UNIT);
  expect(fromWire(A, 'USD', '10.5')).toBe(nanos('10.5'));
  expect(fromWire(A, 'JPY', '10.50')).toBe(nanos('10.5'));
  expect(fromWire(A, 'USD', '-3.00')).toBe(-3n * UNIT);
  expect(fromWire(B, 'KWD', 5_124)).toBe(nanos('5.124'));
  expect(fromWire(B, 'ISK', 550)).toBe(nanos('5.5'));
  expect(fromWire(B, 'USD', 999_999_999_999)).toBe(nanos('9999999999.99'));
  for (const text of ['', ' 1', '1,5', '1e3', 'NaN', '0x10', '1.', '.5', '1'.repeat(14)])
    for (const name of providerNames) expect(() => fromWire(name, 'USD', text)).toThrow();
});

test('every currency of a provider is one, its least is a whole number of steps, and goes there and back', () => {
  for (const name of providerNames) {
    expect(new Set(currenciesOf(name)).size).toBe(currenciesOf(name).length);
    for (const currency of currenciesOf(name)) {
      expect(codes.code(currency)?.code).toBe(currency);
      const step = stepNanos(name, currency);
      const least = minimumNanos(name, currency);
      expect(least).toBeGreaterThan(0n);
      expect(least % step).toBe(0n);
      for (const amount of [step, least, least + step, 1_000n * UNIT])
        expect(fromWire(name, currency, toWire(name, currency, amount))).toBe(amount);
    }
  }
});

test('the least payment is the stated one, or half a unit', () => {
  const stated = { USD: '0.5', GBP: '0.3', HUF: '175', JPY: '50', MXN: '10', CZK: '15' };
  for (const [currency, amount] of Object.entries(stated))
    for (const name of providerNames) expect(minimumNanos(name, currency)).toBe(nanos(amount));
  expect(minimumNanos(B, 'KRW')).toBe(50n * UNIT);
  expect(minimumNanos(B, 'ISK')).toBe(UNIT);
  expect(minimumNanos(A, 'TWD')).toBe(UNIT);
  expect(minimumNanos(B, 'KWD')).toBe(nanos('0.5'));
});

test('without a provider a step is the minor unit of the currency', () => {
  expect(stepNanos(undefined, 'USD')).toBe(UNIT / 100n);
  expect(stepNanos(undefined, 'JPY')).toBe(UNIT);
  expect(stepNanos(undefined, 'KWD')).toBe(UNIT / 1_000n);
});
