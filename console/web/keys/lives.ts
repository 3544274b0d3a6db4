import { serverNow } from '../base/clock';

const DAY_MS = 86_400_000;

/** How long a key may be made to live from now on: days, or empty for ever. */
export const lives = [
  { value: '30', label: '30 days' },
  { value: '90', label: '90 days' },
  { value: '365', label: 'a year' },
  { value: '', label: 'until it is revoked' },
];

/** When a key of such a life ends, by the server's clock; null: never by itself. */
export function expiryOf(life: string): string | null {
  return life === '' ? null : new Date(serverNow() + Number(life) * DAY_MS).toISOString();
}
