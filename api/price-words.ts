import type { PriceCheck } from '../domain/prices/check';
import type { AmountChange, Diff, DiffRow } from '../domain/prices/diff';
import { nameOf, type WholeSeller } from '../domain/prices/plan';
import { sellerOf } from '../domain/prices/sellers';
import type { ServedModels } from '../domain/prices/served';
import { isFault, type ToldCost } from '../domain/prices/told-costs';

// How a terminal shows plans and checks of prices.

const titles: Record<DiffRow['group'], string> = {
  new: 'New',
  changed: 'Changed',
  asks: 'Ask for a yes of their own (--take provider/model; --free for what costs nothing)',
  kept: 'Kept: set by hand, and other than the catalog says',
  moved: 'Changed since the plan was made: make it again',
  same: 'The same',
};

/** A plan's groups, a line a model, and what they count. */
export function diffLines({ rows, missing, gone }: Diff): string[] {
  const lines: string[] = [];
  for (const group of ['new', 'changed', 'asks', 'kept', 'moved'] as const) {
    const own = rows.filter((row) => row.group === group);
    if (own.length === 0) continue;
    lines.push(`${titles[group]}: ${own.length}`, ...own.map(lineOf));
  }
  const later = rows.filter(({ group, coming }) => group !== 'same' && coming.length > 0);
  if (later.length > 0)
    lines.push(
      `Coming: ${later.length}`,
      ...later.flatMap((row) =>
        row.coming.map(
          ({ from, changes }) => `  ${nameOf(row)} from ${from}: ${changes.map(words).join(', ')}`,
        ),
      ),
    );
  const withdrawn = rows.filter((row) => row.withdrawn.length > 0);
  if (withdrawn.length > 0)
    lines.push(
      `Planned before, and listed no more: ${withdrawn.length}`,
      ...withdrawn.map((row) => `  ${nameOf(row)} from ${row.withdrawn.join(', ')}`),
    );
  const losing = rows.filter(({ lost }) => lost.length > 0);
  if (losing.length > 0)
    lines.push(
      `Lose figures that a price has no place for: ${losing.length}`,
      ...losing.map((row) => `  ${nameOf(row)}: ${row.lost.join(', ')}`),
    );
  if (missing.length > 0)
    lines.push(
      `Missing, in no catalog by exactly this name: ${missing.length}`,
      ...missing.map(
        (one) => `  ${nameOf(one)}${one.near.length > 0 ? ` (near: ${one.near.join(', ')})` : ''}`,
      ),
    );
  if (gone.length > 0)
    lines.push(
      `Gone from the catalogs, and kept: ${gone.length}`,
      ...gone.map((name) => `  ${name}`),
    );
  const same = rows.filter(({ group }) => group === 'same').length;
  lines.push(`${rows.length} models with a listed price, ${same} as they are.`);
  return lines;
}

function lineOf(row: DiffRow): string {
  const said =
    row.group === 'new' || row.changes.length === 0 ? '' : `  ${row.changes.map(words).join(', ')}`;
  const fresh = row.group === 'new' ? `  ${amountsOf(row)}` : '';
  const by = row.confirmed_by.length > 0 ? `, confirmed by ${row.confirmed_by.join(', ')}` : '';
  const why = row.group === 'asks' ? `: ${whyOf(row)}` : '';
  return `  ${nameOf(row)}${said}${fresh}  [${row.catalog}${by}]${why}`;
}

const SHOWN_MAX = 4;

/** The amounts of a new price, what goes in and what comes out first. */
function amountsOf({ changes }: DiffRow): string {
  const first = ['input_per_1m', 'output_per_1m'];
  const rank = ({ amount }: AmountChange) => first.indexOf(amount) + 1 || first.length + 1;
  const sorted = [...changes].sort((a, b) => rank(a) - rank(b));
  const shown = sorted.slice(0, SHOWN_MAX).map(({ amount, now }) => `${amount} ${now}`);
  const rest = changes.length - shown.length;
  return `${shown.join(', ')}${rest > 0 ? ` and ${rest} more` : ''}`;
}

function whyOf({ doubts, is_empty, may_be_free }: DiffRow): string {
  const empty = may_be_free ? 'no amount is listed: free, or unknown' : 'no amount has a place';
  return [...(is_empty ? [empty] : []), ...doubts].join('; ');
}

function words({ amount, was, now, percent }: AmountChange): string {
  return `${amount} ${was ?? 'none'} → ${now ?? 'none'}${percent === null ? '' : ` (${percent} %)`}`;
}

const standings: Record<ToldCost['standing'], string> = {
  close: 'as charged',
  below: 'less is charged than the provider takes',
  above: 'more is charged than the provider takes',
  few: 'too few calls to say more',
};

/** What a provider says of its calls, beside what they were charged. */
function costLine(one: ToldCost, days: number): string {
  const { name, calls, ours_usd, theirs_usd, ratio, standing, is_decided } = one;
  const times = ratio === null ? '' : ` (${ratio})`;
  const decided = standing === 'above' && is_decided ? ', as somebody decided' : '';
  const warned = isFault(one) ? 'Warning: ' : '';
  return `${warned}${name}: ${ours_usd} USD charged, ${theirs_usd} by its provider${times}, calls ${calls}, days ${days}: ${standings[standing]}${decided}.`;
}

/** Of a provider whose server lists its models: how they get prices. */
export function discoveringLine({ provider, seller = provider }: WholeSeller): string {
  const flag = seller === provider ? provider : `${provider}=${seller}`;
  const way =
    sellerOf(seller) === undefined
      ? `no catalog knows them. Set prices by hand: POST /v1/admin/model-pricing takes {"provider": "${provider}", "model": "*"} for all of them`
      : `an import takes the seller's whole list: npm run admin -- prices import --provider ${flag}`;
  return `${provider} lists its models itself (discover), and ${way}.`;
}

/** The check passes: nothing is to be mended, and what is served was known. */
export function isInOrder({ faults }: PriceCheck, wanted: ServedModels): boolean {
  return faults === 0 && isKnown(wanted);
}

function isKnown({ served, discovering = [] }: ServedModels): boolean {
  return served.length + discovering.length > 0;
}

/** What is wrong with prices, in lines. */
export function checkLines(found: PriceCheck, wanted: ServedModels): string[] {
  const bare = (wanted.discovering ?? []).filter(({ provider }) =>
    found.unpriced.includes(`${provider}/*`),
  );
  return [
    ...found.unpriced.map((name) => `${name} is served and has no price: it is refused.`),
    ...bare.map(discoveringLine),
    ...found.differs.map(
      ({ name, catalog, changes }) => `${name}: ${changes.map(words).join(', ')}  [${catalog}]`,
    ),
    ...found.beside.map(
      ({ name, catalog, changes }) =>
        `${name}, of another catalog: ${changes.map(words).join(', ')}  [${catalog}]`,
    ),
    ...found.by_hand.map(
      ({ name, catalog, changes }) =>
        `${name}, by hand: ${changes.map(words).join(', ')}  [${catalog}]`,
    ),
    ...found.told_costs.map((one) => costLine(one, found.cost_days)),
    ...found.old.map((line) => `${line}.`),
    ...(found.faults > 0 ? [`${found.faults} to be mended.`] : []),
    ...(!isKnown(wanted)
      ? [
          'The check is not complete: which models are served is not known here, as gateways run files of their own. Name those, --targets gateway.yaml.',
        ]
      : []),
    ...(isInOrder(found, wanted) ? ['Prices are in order.'] : []),
  ];
}
