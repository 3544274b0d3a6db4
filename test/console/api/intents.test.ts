import { Refusal } from '../../../console/web/api/client';
import { intentAfter, newIntent } from '../../../console/web/api/intents';

const refused = (status: number, code: string, headers?: Headers) =>
  new Refusal(status, { error: { code, message: `It is ${code}.` } }, headers);

const replayed = new Headers({ 'idempotent-replayed': 'true' });

/** True if the try after these refusals has the key of the first one. */
function isSame(refusals: readonly Refusal[]): boolean {
  const first = newIntent();
  return refusals.reduce<typeof first>(intentAfter, first).key === first.key;
}

const lost = [refused(0, 'unreachable'), refused(503, 'unavailable')];

/** What may be said before the key is looked up. */
const before = [
  refused(400, 'invalid_request'),
  refused(401, 'invalid_credential'),
  refused(403, 'browser_not_allowed'),
  refused(403, 'permission_denied'),
  refused(403, 'organization_suspended'),
  refused(404, 'not_found'),
  refused(408, 'invalid_request'),
  refused(413, 'payload_too_large'),
  refused(422, 'invalid_field'),
  refused(426, 'version_not_supported'),
  refused(429, 'rate_limit_exceeded'),
];

test.each(
  lost.flatMap((one) =>
    before.map((then) => [one.status, then.status, then.code, one, then] as const),
  ),
)(
  'after a try that %i left open, %i %s says nothing of it: the next try has its key',
  (...[, , , one, then]) => {
    expect(isSame([one, then])).toBe(true);
    expect(isSame([one, then, then])).toBe(true);
  },
);

test.each(before.map((one) => [one.status, one.code, one] as const))(
  'after %i %s alone nothing is done: the next try is another intent',
  (_status, _code, one) => expect(isSame([one])).toBe(false),
);

test.each([
  ['a refusal of the act itself', refused(409, 'insufficient_balance')],
  ['one that the lost try gave', refused(403, 'permission_denied', replayed)],
])('after %s a lost try is known not to be done', (_what, then) => {
  expect(isSame([refused(0, 'unreachable'), then])).toBe(false);
});

test('a key that was used for something else stays the key of what may be done', () => {
  const reused = refused(422, 'idempotency_key_reused');
  expect(isSame([refused(0, 'unreachable'), reused])).toBe(true);
});
