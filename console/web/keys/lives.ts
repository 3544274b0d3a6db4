import { useQuery } from '@tanstack/react-query';
import { reading } from '../api/queries';
import { serverNow } from '../base/clock';
import { useMe } from '../session/me';

const DAY_MS = 86_400_000;

/** How long a key may be made to live from now on: days, or empty for as long as may be. */
const lives = [
  { value: '30', label: 'in 30 days' },
  { value: '90', label: 'in 90 days' },
  { value: '365', label: 'in a year' },
  { value: '', label: 'never' },
];

/** Those within the days that an organization allows its members' keys; null: any. */
export function livesWithin(max_days: number | null) {
  if (max_days === null) return lives;
  const shorter = lives.filter(({ value }) => value !== '' && Number(value) < max_days);
  return [...shorter, { value: '', label: max_days === 1 ? 'in a day' : `in ${max_days} days` }];
}

/** When a key of such a life ends, by the server's clock; null: as late as may be. */
export function expiryOf(life: string): string | null {
  return life === '' ? null : new Date(serverNow() + Number(life) * DAY_MS).toISOString();
}

/** The rules for keys that members make themselves; undefined until they are read. */
export function useOwnKeyRules(is_wanted: boolean) {
  const { acting_org } = useMe();
  const { data } = useQuery({
    ...reading('GET /api/member-keys/:id', { names: { id: acting_org ?? '' } }),
    enabled: is_wanted && acting_org !== null,
  });
  return data;
}
