import type { Amount } from '../ledger/price-lists';
import type { Db } from '../sql';
import type { Listed, ListedPrice } from './catalogs/catalog';
import { compared, over, shifted, times } from './decimals';
import { nameOf, type Plan, type PlanRow } from './plan';
import { inForce, type Present, planned } from './stored';

/** One amount that an import would change; null where a side says nothing. */
export interface AmountChange {
  /** `input_per_1m`, `above 200000: input_per_1m`, `priority: input_per_1m`. */
  amount: string;
  was: string | null;
  now: string | null;
  /** `+25.0`; null without both. */
  percent: string | null;
}

export interface DiffRow {
  provider: string;
  model: string;
  /**
   * `kept`: a person wrote the present price; it stays unless taken by name. `asks`: somebody has
   * to say yes to this very row. `moved`: the price has changed since the plan was made.
   */
  group: 'new' | 'changed' | 'asks' | 'kept' | 'same' | 'moved';
  changes: AmountChange[];
  /** Why it asks. */
  doubts: string[];
  /** The catalog lists no amount, or zeros: free, or unknown. */
  is_empty: boolean;
  /** Days from which further prices are planned. */
  coming: string[];
  lost: string[];
  catalog: string;
  confirmed_by: string[];
}

/** What a plan would do to the prices as they are now. */
export interface Diff {
  rows: DiffRow[];
  missing: Plan['missing'];
  gone: Plan['gone'];
}

const RISE_PERCENT = 25;
const FALL_PERCENT = 50;
// USD per million: what no model has cost yet.
const DEAREST = '10000';
// Slips of units: a token for a million, cents for dollars.
const SLIPS = ['10', '1000', '1000000'];

export async function diff(db: Db, plan: Plan): Promise<Diff> {
  const providers = [...new Set(plan.rows.map(({ provider }) => provider))];
  const present = await inForce(db, providers);
  const by_name = new Map(present.map((one) => [nameOf(one), one]));
  const patterns = present.filter(({ model, source }) => model.endsWith('*') && source === 'hand');
  const later = await planned(db, providers);
  return {
    rows: plan.rows.map((row) => {
      const own = by_name.get(nameOf(row));
      const pattern = own === undefined ? patterns.find((one) => covers(one, row)) : undefined;
      return diffRow(row, own, pattern, later);
    }),
    missing: plan.missing,
    gone: plan.gone,
  };
}

function covers(pattern: Present, { provider, model }: PlanRow): boolean {
  return pattern.provider === provider && model.startsWith(pattern.model.slice(0, -1));
}

function diffRow(
  row: PlanRow,
  own: Present | undefined,
  pattern: Present | undefined,
  later: readonly Present[],
): DiffRow {
  const present = own ?? pattern;
  const changes = changesOf(present?.price, row.price);
  const is_empty = !billable(row.price);
  const coming = row.coming
    .map(({ from }) => from)
    .filter((from) => !later.some((one) => nameOf(one) === nameOf(row) && dayOf(one) === from));
  const doubts = [
    ...row.doubts,
    ...(own === undefined ? [] : leaps(changes)),
    ...absurd(row.price),
  ];
  const facts = {
    ...{ provider: row.provider, model: row.model, changes, doubts, is_empty, coming },
    ...{ lost: row.lost, catalog: row.catalog, confirmed_by: row.confirmed_by },
  };
  return { ...facts, group: groupOf(row, own, pattern, facts) };
}

function groupOf(
  row: PlanRow,
  own: Present | undefined,
  pattern: Present | undefined,
  {
    changes,
    doubts,
    is_empty,
    coming,
  }: Pick<DiffRow, 'changes' | 'doubts' | 'is_empty' | 'coming'>,
): DiffRow['group'] {
  if ((own?.version_id ?? null) !== row.against) return 'moved';
  const is_same = changes.length === 0 && coming.length === 0;
  if (own?.free && is_empty) return 'same';
  if (own !== undefined && is_same) return 'same';
  if (own?.source === 'hand' || pattern !== undefined) return 'kept';
  if (is_empty || doubts.length > 0) return 'asks';
  return own === undefined ? 'new' : 'changed';
}

/** The day of UTC on which a planned version starts. */
function dayOf({ effective_from }: Present): string {
  return effective_from.toISOString().slice(0, 10);
}

function billable({ amounts, tiers }: ListedPrice): boolean {
  return [amounts, ...tiers].some((list) =>
    Object.values(list).some((amount) => typeof amount === 'string' && amount !== '0'),
  );
}

function changesOf(was: ListedPrice | undefined, now: ListedPrice): AmountChange[] {
  const before = flat(was);
  const after = flat(now);
  const names = [...new Set([...before.keys(), ...after.keys()])];
  return names.flatMap((amount) => {
    const old = before.get(amount) ?? null;
    const fresh = after.get(amount) ?? null;
    if (old === fresh || (old ?? '0') === (fresh ?? '0')) return [];
    return [{ amount, was: old, now: fresh, percent: percentOf(old, fresh) }];
  });
}

function flat(price: ListedPrice | undefined): Map<string, string> {
  const found = new Map<string, string>();
  if (price === undefined) return found;
  addAll(found, '', price.amounts);
  for (const tier of price.tiers) addAll(found, `above ${tier.above_prompt_tokens}: `, tier);
  for (const [name, list] of Object.entries(price.service_tiers)) {
    addAll(found, `${name}: `, list.amounts);
    for (const tier of list.tiers)
      addAll(found, `${name}, above ${tier.above_prompt_tokens}: `, tier);
  }
  return found;
}

function addAll(found: Map<string, string>, before: string, list: Listed): void {
  for (const [name, amount] of Object.entries(list) as [Amount | string, unknown][])
    if (typeof amount === 'string') found.set(before + name, amount);
}

function percentOf(was: string | null, now: string | null): string | null {
  if (was === null || now === null || was === '0') return null;
  const change = (Number(now) / Number(was) - 1) * 100;
  return `${change < 0 ? '' : '+'}${change.toFixed(1)}`;
}

/** Changes that are more likely a slip than a new price. */
function leaps(changes: readonly AmountChange[]): string[] {
  return changes.flatMap(({ amount, was, now, percent }) => {
    if (was === null) return [];
    if (now === null) return [`${amount} (${was}) is no longer listed`];
    if (was === '0') return [`${amount} was 0 and is ${now}`];
    const slip = SLIPS.find(
      (factor) => near(now, times(was, factor)) || near(was, times(now, factor)),
    );
    if (slip !== undefined) return [`${amount} moves by a factor near ${slip}: ${was} to ${now}`];
    const change = Number(percent);
    if (change > RISE_PERCENT || change < -FALL_PERCENT)
      return [`${amount} moves by ${percent} per cent: ${was} to ${now}`];
    return [];
  });
}

/** Within one per cent. */
function near(a: string, b: string): boolean {
  if (b === '0') return a === '0';
  return (
    compared(a, over(times(b, '99'), 100)) >= 0 && compared(a, shifted(times(b, '101'), -2)) <= 0
  );
}

function absurd(price: ListedPrice): string[] {
  return [...flat(price)].flatMap(([name, amount]) =>
    name.endsWith('_per_1m') && compared(amount, DEAREST) > 0
      ? [`${name} is ${amount} USD per million`]
      : [],
  );
}
