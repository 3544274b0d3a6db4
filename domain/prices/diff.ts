import type { Db } from '../sql';
import type { AmountChange } from './doubts';
import { type Judged, judge, presentMoment } from './judge';
import type { Plan } from './plan';

export type { AmountChange } from './doubts';

/** A row of a plan, beside the price as it is. */
export interface DiffRow
  extends Pick<
    Judged,
    'group' | 'changes' | 'has_news' | 'doubts' | 'is_empty' | 'may_be_free' | 'withdrawn'
  > {
  provider: string;
  model: string;
  /** Prices of later days that would be planned. */
  coming: { from: string; changes: AmountChange[] }[];
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

export async function diff(db: Db, plan: Plan): Promise<Diff> {
  const rows = await judge(db, plan, await presentMoment(db));
  return { rows: rows.map(shown), missing: plan.missing, gone: plan.gone };
}

function shown({ row, present: _present, price: _price, coming, ...judged }: Judged): DiffRow {
  const { provider, model, lost, catalog, confirmed_by } = row;
  return {
    ...{ provider, model, lost, catalog, confirmed_by, ...judged },
    coming: coming.map(({ from, changes }) => ({ from, changes })),
  };
}
