import { fairShare } from '../../../domain/shares';
import { createHeldCalls } from '../../../gateway/call/held-calls';
import { createKeptBytes } from '../../../gateway/call/kept-bytes';
import { shareOf } from '../../../gateway/config/shares';

/** Lets each organization in turn take all the places that it can; how many each has. */
function takeAll(places: number, organizations: number): number[] {
  const held = createHeldCalls();
  return Array.from({ length: organizations }, (_, n) => {
    const place = {
      owner: `key ${n}`,
      org_id: `org ${n}`,
      held_max: places,
      held_per_key_max: places,
      orgShare: (held_by_others: number) =>
        shareOf({ all: places, held_by_others }, undefined, { mode: 'gateway_key' }),
      bytes: 1,
      bytes_max: places,
      orgBytes: () => places,
    };
    const never = () => new Promise(() => undefined);
    const gone = () => new AbortController().signal;
    let taken = 0;
    while (held.hold({}, { ...place, gone: gone() }, never) !== undefined) taken += 1;
    return taken;
  });
}

test('organizations that take all the places they can leave some to the next', () => {
  expect(takeAll(4, 3)).toEqual([2, 1, 1]);
  expect(takeAll(1_000, 8)).toEqual([500, 250, 125, 63, 31, 16, 8, 4]);
});

test('a share that the configuration names stands as it is, and nobody has less than no place', () => {
  const places = { all: 10, held_by_others: 8 };
  expect(shareOf(places, 7, { mode: 'gateway_key' })).toBe(7);
  expect(shareOf(places, undefined, { mode: 'header_soft' })).toBe(10);
  expect(fairShare(10, 12)).toBe(0);
});

test('bytes that are kept: a key has half of what its organization may have, and what is alone is always taken', () => {
  const kept = createKeptBytes();
  const keeper = (owner: string, org_id: string) => ({
    owner,
    org_id,
    bytes_max: 100,
    orgShare: (held_by_others: number) => fairShare(100, held_by_others),
  });
  expect(kept.fullFor(keeper('a', 'A'), 0, 500)).toBeUndefined();
  kept.count(keeper('a', 'A'), 20);
  expect(kept.fullFor(keeper('a', 'A'), 0, 5)).toBeUndefined();
  expect(kept.fullFor(keeper('a', 'A'), 0, 6)).toEqual({ whose: 'key', limit: 25 });
  expect(kept.fullFor(keeper('b', 'A'), 0, 30)).toBeUndefined();
  expect(kept.fullFor(keeper('b', 'A'), 0, 31)).toEqual({ whose: 'organization', limit: 50 });
  expect(kept.fullFor(keeper('c', 'C'), 0, 81)).toEqual({ whose: 'gateway', limit: 100 });
  kept.count(keeper('a', 'A'), -20);
  expect(kept.fullFor(keeper('c', 'C'), 0, 81)).toBeUndefined();
});
