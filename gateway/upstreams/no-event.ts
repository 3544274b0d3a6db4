import type { Body } from '../wire/values';
import { isOnlyWords } from './failures';

/** True for words about a failure where an event was to come. */
export function isNoEvent(event: Body): boolean {
  const { choices, type, usage, object } = event;
  if ((choices ?? type ?? usage ?? object) !== undefined) return false;
  return isOnlyWords(event);
}
