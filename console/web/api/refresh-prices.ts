import { refresh } from './queries';

/** Reads anew what depends on prices: lists, proposals, imports and checks. */
export function refreshPrices(): Promise<void> {
  return refresh('/api/prices', '/api/admin/price', '/api/setup/prices');
}
