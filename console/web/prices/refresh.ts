import { refresh } from '../api/queries';

/** Reads anew what depends on prices: the list, proposals, imports, and what they are checked by. */
export function refreshPrices(): Promise<void> {
  return refresh('/api/prices', '/api/admin/price', '/api/setup/prices');
}
