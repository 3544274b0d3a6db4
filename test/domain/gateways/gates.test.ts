import { changesBetween } from '../../../domain/gateways/changes';
import { driftOf, type FleetMember } from '../../../domain/gateways/fleet';
import {
  no_counts,
  since,
  stagesProblem,
  targetOf,
  together,
  verdictOn,
} from '../../../domain/gateways/gates';

const counts = (finished: number, more: object = {}) => ({ ...no_counts, finished, ...more });
const good = together([counts(1_000, { own_5xx: 5 })]);

test.each([
  ['nothing wrong', [counts(100)], undefined],
  ['as bad as elsewhere', [counts(1_000, { own_5xx: 5 })], undefined],
  ['just within', [counts(1_000, { own_5xx: 25 })], undefined],
  ['just beyond', [counts(1_000, { own_5xx: 26 })], 'errors of the gateway itself (2.6 %)'],
  ['providers that fail', [counts(200, { upstream_5xx: 20 })], 'failures of providers (10.0 %)'],
  // Two of three are no judgement; three at once of what would be a hundred are.
  ['few bad ones among few', [counts(3, { own_5xx: 2 })], undefined],
  ['many bad ones among few', [counts(3, { own_5xx: 3 })], '3 of 3 calls ended'],
  ['some more refusals', [counts(1_000, { refused: 100 })], undefined],
  ['many more refusals', [counts(1_000, { refused: 101 })], 'refusals (10.1 %)'],
  ['one bad of two', [counts(500, { own_5xx: 60 }), counts(500)], 'errors of the gateway itself'],
  ['lost reports', [counts(100, { lost_reports: 3 })], '3 reports'],
])('the gate of 2 %% over 0.5 %% elsewhere: %s', (_, moved, words) => {
  const verdict = verdictOn(moved, good, 0.02);
  if (words === undefined) expect(verdict).toBeUndefined();
  else expect(verdict).toContain(words);
});

test('where nobody else has finished a call, none of theirs counts as bad', () => {
  expect(verdictOn([counts(100, { own_5xx: 2 })], undefined, 0.02)).toBeUndefined();
  expect(verdictOn([counts(100, { own_5xx: 3 })], undefined, 0.02)).toContain('against 0.0 %');
});

test('a window is what was counted since it began; a counter that began anew starts at zero', () => {
  const then = counts(100, { own_5xx: 7 });
  expect(since(counts(150, { own_5xx: 9 }), then)).toEqual(counts(50, { own_5xx: 2 }));
  expect(since(counts(20, { own_5xx: 1 }), then)).toEqual(counts(20, { own_5xx: 1 }));
  expect(since(counts(20), undefined)).toEqual(counts(20));
});

test.each([
  [1, 5, 1],
  ['25%', 5, 2],
  ['1%', 5, 1],
  ['100%', 5, 5],
  [9, 5, 5],
])('the stage %s of %i gateways moves %i', (stage, living, target) => {
  expect(targetOf(stage, living)).toBe(target);
});

test.each([
  [[1, '25%', '100%'], 200, undefined],
  [[1, '25%', '100%'], 1, undefined],
  [['100%'], 5, undefined],
  [[1, 2, '30%', '100%'], 5, undefined],
  [[3, '10%', '100%'], 5, 'must grow'],
  [['10%', 5, '100%'], 100, 'must grow'],
  [[1, '25%'], 5, 'must end'],
  [[1, 5], 5, 'must end'],
  [[], 5, 'must end'],
  [['20%', '20%', '100%'], 5, 'must grow'],
])('stages %j of %i gateways: %s', (stages, living, words) => {
  const problem = stagesProblem(stages, living);
  if (words === undefined) expect(problem).toBeUndefined();
  else expect(problem).toContain(words);
});

test('changes name paths in order; long values and many places are cut', () => {
  const before = { a: 1, list: [{ x: 1 }, { x: 2 }], gone: true, deep: { same: 'x', other: null } };
  const after = { a: 1, list: [{ x: 1 }, { x: 3 }, { x: 4 }], deep: { same: 'x', other: 'y' } };
  expect(changesBetween(before, after)).toEqual({
    count: 4,
    changes: [
      { path: 'deep.other', before: null, after: 'y' },
      { path: 'gone', before: true },
      { path: 'list[1].x', before: 2, after: 3 },
      { path: 'list[2]', after: { x: 4 } },
    ],
  });
  const many = Object.fromEntries(
    Array.from({ length: 300 }, (_, n) => [`k${n}`, 'x'.repeat(600)]),
  );
  const { changes, count } = changesBetween({}, many);
  expect([count, changes.length, changes[0]?.after]).toEqual([300, 200, '(602 characters)']);
});

test('a gateway of the version before reports each minute, and is silent after three', () => {
  const now = new Date();
  const member = {
    seen_at: new Date(now.getTime() - 90_000),
    desired_since: now,
    now,
    config_version: null,
    refused_version: null,
    desired_version: null,
    config_hash: 'x',
  } as FleetMember;
  const at = { is_supported: true, expected_hash: undefined };
  expect(driftOf({ ...member, group_name: null }, at)).toBe('in_sync');
  expect(driftOf({ ...member, group_name: 'default' }, at)).toBe('silent');
});
