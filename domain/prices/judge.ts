import type { Metadata } from '../ledger/price-lists';
import { type Db, one } from '../sql';
import type { ListedPrice } from './catalogs/catalog';
import {
  type AmountChange,
  absurd,
  changesOf,
  factChanges,
  factDoubts,
  givenAway,
  leaps,
  leftOut,
} from './doubts';
import { isBillable } from './listed';
import { upliftChanges } from './places';
import { covers, nameOf, type Plan, type PlanRow } from './plan';
import { outOfLine } from './siblings';
import { type Present, planned, presentPrices } from './stored';

/** A price of a later day, as an import would plan it. */
export interface Later {
  /** The day of UTC on which it starts. */
  from: string;
  price: ListedPrice;
  /** Against what is in force before it. */
  changes: AmountChange[];
}

/** What a row of a plan would do to the prices as they are now. */
export interface Judged {
  row: PlanRow;
  present: Present | undefined;
  /**
   * `kept`: a person wrote the present price or a planned one; it stays unless taken by name.
   * `asks`: somebody has to say yes to this very row. `moved`: the price has changed since the plan
   * was made.
   */
  group: 'new' | 'changed' | 'asks' | 'kept' | 'same' | 'moved';
  /** The price from now on, with what a catalog cannot say of the present one. */
  price: ListedPrice;
  changes: AmountChange[];
  /** What is known of the model is not what is stored. */
  has_news: boolean;
  coming: Later[];
  /** Planned by an import, and no longer in the catalog. */
  withdrawn: string[];
  doubts: string[];
  /** No amount is listed: free, or unknown. */
  is_empty: boolean;
  /** It may be said to cost nothing: no figure of it was lost. */
  may_be_free: boolean;
}

// What no catalog says of a model: an import leaves it as somebody set it.
const unlisted = ['per_container', 'per_tool_call', 'minimum', 'minimum_seconds'] as const;

/**
 * The database's clock: prices start by it, and one moment is the present for all rows of an
 * import. As text, since a Date has no microseconds.
 */
export async function presentMoment(db: Db): Promise<string> {
  const sql = `select to_char(clock_timestamp() at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as now`;
  return (await one<{ now: string }>(db, sql, {})).now;
}

/** Judges each row of a plan by the prices as they are, and by the day of `now`. */
export async function judge(db: Db, plan: Plan, now: string): Promise<Judged[]> {
  const providers = [...new Set(plan.rows.map(({ provider }) => provider))];
  const stored = await presentPrices(db, providers);
  const by_name = new Map(stored.map((one) => [nameOf(one), one]));
  const patterns = stored.filter(({ model, source }) => model.endsWith('*') && source === 'hand');
  const later = new Map<string, Present[]>();
  for (const one of await planned(db, providers))
    later.set(nameOf(one), [...(later.get(nameOf(one)) ?? []), one]);
  const day = now.slice(0, 10);
  return plan.rows.map((row) => {
    const own = by_name.get(nameOf(row));
    const pattern = own === undefined ? patterns.find((one) => covers(one, row)) : undefined;
    return judged(row, { own, pattern, planned: later.get(nameOf(row)) ?? [], day });
  });
}

interface Facts {
  own: Present | undefined;
  pattern: Present | undefined;
  planned: readonly Present[];
  day: string;
}

function judged(row: PlanRow, facts: Facts): Judged {
  const { own, pattern, day } = facts;
  const present = own ?? pattern;
  // The start of a price may lie between the plan's making and now.
  const started = row.coming.filter(({ from }) => from <= day).at(-1);
  const listed = started?.price ?? row.price;
  const price = withUnlisted(listed, own);
  const of_price = changesOf(present?.price, price);
  const of_model = own?.source === 'hand' ? [] : factChanges(own, row.metadata);
  const of_places = own?.source === 'import' ? upliftChanges(own.metadata, row.metadata) : [];
  const changes = [...of_price, ...of_model, ...of_places];
  const is_empty = !isBillable(listed);
  const { coming, doubts: later_doubts } = comingOf(row, price, facts);
  const doubts = [
    ...row.doubts,
    ...(own === undefined
      ? [...givenAway(row.model, price), ...leftOut(row.model, price, row.seller)]
      : leaps(of_price)),
    ...outOfLine(of_price, price),
    ...(own === undefined ? [] : staleLists(of_price, keptBy(listed, own.price), own.regions)),
    ...factorDoubts(row, own),
    ...(own === undefined ? [] : factDoubts(of_model)),
    ...absurd(price),
    ...later_doubts,
  ];
  const days = new Set(row.coming.map(({ from }) => from));
  const withdrawn = facts.planned
    .filter((one) => one.source === 'import' && !days.has(dayOf(one)))
    .map(dayOf);
  const may_be_free = is_empty && row.lost.length === 0;
  const has_news = own !== undefined && isOther(row.metadata, own.metadata);
  const rest = { row, present: own, price, changes, has_news, coming, withdrawn, doubts };
  return { ...rest, is_empty, may_be_free, group: groupOf(rest, is_empty, facts) };
}

function groupOf(
  judged: Pick<Judged, 'row' | 'changes' | 'has_news' | 'coming' | 'withdrawn' | 'doubts'>,
  is_empty: boolean,
  { own, pattern, planned: later }: Facts,
): Judged['group'] {
  const { row, changes, has_news, coming, withdrawn, doubts } = judged;
  if ((own?.version_id ?? null) !== row.against) return 'moved';
  const is_same = coming.length + withdrawn.length === 0;
  if (own?.free === true && is_empty && is_same) return 'same';
  const by_hand = own?.source === 'hand' || later.some(({ source }) => source === 'hand');
  if (own !== undefined && is_same && changes.length === 0 && (by_hand || !has_news)) return 'same';
  if (by_hand || pattern !== undefined) return 'kept';
  if (is_empty || doubts.length > 0) return 'asks';
  return own === undefined ? 'new' : 'changed';
}

/** The price with what no catalog says, and with the tiers of service if this one says none. */
function withUnlisted(price: ListedPrice, own: Present | undefined): ListedPrice {
  if (own === undefined) return price;
  const kept = unlisted.flatMap((name) => {
    const amount = own.price.amounts[name];
    return amount === undefined || price.amounts[name] !== undefined ? [] : [[name, amount]];
  });
  return {
    amounts: { ...price.amounts, ...Object.fromEntries(kept) },
    tiers: price.tiers,
    service_tiers: { ...price.service_tiers, ...keptBy(price, own.price) },
  };
}

/** The tiers of service of the price before, if this one says none. */
function keptBy({ service_tiers }: ListedPrice, before: ListedPrice): ListedPrice['service_tiers'] {
  return Object.keys(service_tiers).length > 0 ? {} : before.service_tiers;
}

/**
 * Lists that a catalog does not say, beside amounts that move: they were made for the ones before,
 * and are charged in their stead.
 */
function staleLists(
  changes: readonly AmountChange[],
  kept: ListedPrice['service_tiers'],
  regions: readonly string[],
): string[] {
  const moved = new Set(changes.map(({ amount }) => amount));
  const tiers = Object.entries(kept).flatMap(([name, { amounts }]) =>
    Object.keys(amounts).some((amount) => moved.has(amount)) ? [name] : [],
  );
  const moves = [...moved].some((amount) => amount.endsWith('_per_1m'));
  return [
    ...(tiers.length > 0
      ? [`tiers of service (${tiers.join(', ')}) are not listed, and stay as they are`]
      : []),
    ...(moves && regions.length > 0
      ? [`prices of regions (${regions.join(', ')}) are not listed, and stay as they are`]
      : []),
  ];
}

/** Prices of later days that are not planned yet, each judged by the one before it. */
function comingOf(row: PlanRow, price: ListedPrice, { own, planned: later, day }: Facts) {
  const coming: Later[] = [];
  const doubts: string[] = [];
  let before = price;
  for (const { from, price: listed } of row.coming.filter((one) => one.from > day)) {
    const next = withUnlisted(listed, own);
    const carried = keptBy(listed, before);
    const whole = { ...next, service_tiers: { ...next.service_tiers, ...carried } };
    const told = later.find((one) => dayOf(one) === from);
    const is_planned = told !== undefined && changesOf(told.price, whole).length === 0;
    const changes = changesOf(before, whole);
    before = whole;
    if (is_planned) continue;
    if (!isBillable(listed)) {
      doubts.push(`from ${from} no amount is listed: nothing is planned for that day`);
      continue;
    }
    coming.push({ from, price: whole, changes });
    const slips = [
      ...leaps(changes),
      ...outOfLine(changes, whole),
      ...absurd(whole),
      ...staleLists(changes, carried, own?.regions ?? []),
    ];
    doubts.push(...slips.map((doubt) => `from ${from}: ${doubt}`));
  }
  return { coming, doubts };
}

/** A markup that was agreed on is not lost by a plan that does not know it. */
function factorDoubts({ factor }: PlanRow, own: Present | undefined): string[] {
  if (own?.source !== 'import' || (own.price_factor ?? '1') === (factor ?? '1')) return [];
  return [`its factor moves from ${own.price_factor ?? '1'} to ${factor ?? '1'}`];
}

/** The day of UTC on which a planned version starts. */
function dayOf({ effective_from }: Present): string {
  return effective_from.toISOString().slice(0, 10);
}

function isOther(now: Metadata, was: Metadata | null): boolean {
  return Object.entries(now).some(
    ([name, value]) => JSON.stringify(value) !== JSON.stringify(was?.[name as keyof Metadata]),
  );
}
