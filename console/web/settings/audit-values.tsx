import { Group } from '@mantine/core';
import { amountOf } from '../base/decimals';
import { Money } from '../parts/money';
import { Name, PersonName } from '../parts/names';
import { Time } from '../parts/time';
import { useCurrency } from '../session/me';

// The audit log keeps rows as the database has them; people read names, times and amounts.

const amounts = new Set(
  `actual_cost allowed_topup_amounts amount approved balance balance_after captured charged cost
   credited credited_amount debited estimated_cost excess from_balance held kept limit
   low_balance_threshold max_budget max_per_call max_per_day max_topup_amount min_topup_amount
   raised refunded_amount released_amount reserved reserved_amount spent to_balance`.split(/\s+/),
);
const NANOS = '_nanos';
const moment = /^\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d(?::?\d\d)?)$/;
const id = /^[a-z]{2,6}_[0-9A-Za-z]{16,}$/;

/** The name of a field in words: `owner_team_id` is "owner team", `archived_at` "archived". */
export function fieldWords(field: string): string {
  return field.replace(/_(nanos|id|at)$/, '').replaceAll('_', ' ');
}

/** A value of a row as people read it; of the row its currency says what its amounts are in. */
export function AuditValue({
  field,
  value,
  row,
}: {
  field: string;
  value: unknown;
  row: Readonly<Record<string, unknown>>;
}) {
  const own = useCurrency();
  const currency = typeof row.currency === 'string' ? row.currency : own;
  if (value === undefined || value === null) return <span>–</span>;
  if (Array.isArray(value)) {
    if (value.length === 0) return <span>none</span>;
    return (
      <Group gap={8} component="span">
        {value.map((one, place) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: what was written never changes.
          <AuditValue key={place} {...{ field, row }} value={one} />
        ))}
      </Group>
    );
  }
  const amount = amountIn(field, value, row);
  if (amount !== undefined) return <Money amount={amount} currency={currency} />;
  if (typeof value === 'boolean') return <span>{value ? 'yes' : 'no'}</span>;
  if (typeof value !== 'string') return <span>{JSON.stringify(value)}</span>;
  if (moment.test(value)) return <Time at={new Date(value).toISOString()} />;
  if (/^(user|key)_/.test(value) && id.test(value)) return <PersonName id={value} />;
  return id.test(value) ? <Name id={value} /> : <span>{value}</span>;
}

/** The amount that a field holds; undefined if it holds none. */
function amountIn(
  field: string,
  value: unknown,
  row: Readonly<Record<string, unknown>>,
): number | undefined {
  const is_nanos = field.endsWith(NANOS);
  const name = is_nanos ? field.slice(0, -NANOS.length) : field;
  // A cap is of money, or of a number of answers.
  const is_cap = field === 'max_value' && row.constraint_type === 'cost';
  if (!is_nanos && !is_cap && !amounts.has(name)) return undefined;
  if (is_nanos && /^-?\d+$/.test(String(value))) return amountOf(BigInt(String(value)));
  const read = typeof value === 'boolean' || value === '' ? Number.NaN : Number(value);
  return Number.isFinite(read) ? read : undefined;
}
