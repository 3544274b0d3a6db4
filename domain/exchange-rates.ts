import { AppError } from './errors';
import { NANOS_MAX } from './money';
import { type Db, many, one } from './sql';

interface ExchangeRates {
  base: 'USD';
  /** Units of each currency for 1 USD. */
  rates: Record<string, number>;
  updated_at: Date | null;
}

/** All rates as they stand. */
export async function current(db: Db): Promise<ExchangeRates> {
  const rows = await many<{ currency: string; rate: number; updated_at: Date }>(
    db,
    'select currency, rate::float as rate, updated_at from exchange_rates order by currency',
  );
  const newest = rows.map((row) => row.updated_at).sort((a, b) => Number(b) - Number(a))[0];
  return {
    base: 'USD',
    rates: Object.fromEntries(rows.map((row) => [row.currency, row.rate])),
    updated_at: newest ?? null,
  };
}

/** Sets the named rates; others stay. */
export function set(db: Db, rates: Record<string, number>): Promise<ExchangeRates> {
  return db.transaction(async (trx) => {
    await many(
      trx,
      `insert into exchange_rates (currency, rate, updated_at)
       select r.key, r.value::numeric, clock_timestamp() from jsonb_each_text(:rates) as r order by r.key
       on conflict (currency) do update set rate = excluded.rate, updated_at = excluded.updated_at`,
      { rates: JSON.stringify(rates) },
    );
    return current(trx);
  });
}

/**
 * Nanos of one currency in another by the admin's rates, rounded half up. `exchange_rate_missing`
 * without a rate, `invalid_field` for an amount that rounds to nothing, `amount_too_large` above
 * the bound of an amount.
 */
export async function convert(
  db: Db,
  amount_nanos: bigint,
  from: string,
  to: string,
): Promise<bigint> {
  if (from === to) return amount_nanos;
  const param = 'amount';
  const { nanos } = await one<{ nanos: string | null }>(
    db,
    'select round(:amount_nanos::numeric * rate_of(:to) / rate_of(:from))::text as nanos',
    { amount_nanos: String(amount_nanos), from, to },
  );
  if (nanos === null) {
    throw new AppError(
      'exchange_rate_missing',
      `There is no exchange rate between ${from} and ${to}.`,
      { param: 'currency' },
    );
  }
  const converted = BigInt(nanos);
  if (converted > NANOS_MAX)
    throw new AppError('amount_too_large', `The amount is too large in ${to}.`, { param });
  if (converted === 0n)
    throw new AppError('invalid_field', `The amount is less than a billionth in ${to}.`, { param });
  return converted;
}
