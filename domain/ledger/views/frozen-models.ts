import { type Db, maybe } from '../../sql';
import type { PricedModel } from '../calls';

/**
 * The models whose prices a hold froze, first the one that its reserve named; undefined for a hold
 * that has none. It may be settled as one of these alone.
 */
export async function frozenModels(
  db: Db,
  hold: { org_id: string; reservation_id: string },
): Promise<PricedModel[] | undefined> {
  const row = await maybe<PricedModel & { fallbacks: PricedModel[] | null }>(
    db,
    `select r.provider, r.model, r.fallbacks from reservations r
     where r.org_id = :org_id and r.id = :reservation_id and r.provider is not null`,
    hold,
  );
  return row && [row, ...(row.fallbacks ?? [])].map(({ provider, model }) => ({ provider, model }));
}
