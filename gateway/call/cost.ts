import type { PriceLine } from '../../domain/ledger/price-sheet';

/** What a call was settled at. */
export interface Cost {
  /** Exact decimal text of major units. */
  amount: string;
  currency: string;
  /** They add up to the amount; undefined if the control plane does not say them. */
  lines: readonly PriceLine[] | undefined;
}
