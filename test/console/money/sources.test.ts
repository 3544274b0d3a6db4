import { isMovedOnly, mayCredit } from '../../../console/web/session/credits';
import { fillable, sourceWords } from '../../../console/web/tickets/sources';

test.each([
  ['a person of an organization that credits', false, 'allowed', true, false],
  ['a person whose organization only the platform fills', false, 'platform_only', false, true],
  ['an operator there', true, 'platform_only', true, false],
  ['a person before anything is known', false, undefined, false, false],
] as const)('%s', (_, is_platform, manual_credit, may_credit, is_moved_only) => {
  const rule = { is_platform, manual_credit };
  expect([mayCredit(rule), isMovedOnly(rule)]).toEqual([may_credit, is_moved_only]);
});

test('an approval that moves money fills no wallet of the organization', () => {
  const organization = { owner_type: 'organization', shortfall: 1 };
  const team = { owner_type: 'team', shortfall: 2 };
  expect(fillable([organization, team], false)).toEqual([organization, team]);
  expect(fillable([organization, team], true)).toEqual([team]);
  // One that lacks nothing holds the call as it is.
  const covered = { ...organization, shortfall: 0 };
  expect(fillable([covered], true)).toEqual([covered]);
});

test('money that moves is not called new', () => {
  const words = (is_of_team: boolean, is_moved: boolean) =>
    sourceWords('the wallet of the team', { is_of_team, is_moved }).split('. ')[0];
  expect(words(false, true)).toBe(
    "It moves from the organization's wallet to the wallet of the team",
  );
  expect(words(true, false)).toBe("It moves from your team's wallet to the wallet of the team");
  expect(words(false, false)).toBe(
    'It is credited by hand, as new money in the wallet of the team',
  );
});
