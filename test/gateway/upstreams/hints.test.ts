import type { AuthWay } from '../../../gateway/config/auth';
import { clockHint, silenceOf } from '../../../gateway/upstreams/credentials/hints';
import { Renewal } from '../../../gateway/upstreams/credentials/renewal';
import { ask, clock, openTold, targets } from '../providers/sold';

// What an operator is told to do where no credential comes, or none is taken.

test('a clock that is off is told of where Google gives no token for what it signed', async () => {
  const { made, told } = await openTold(targets().filter(({ id }) => id === 'gcp-claude'));
  clock.off_ms = 600_000;
  const { status, text } = await ask('gcp-claude', 'Hello', { at: made.url });
  clock.off_ms = 0;
  expect([status, text]).toEqual([502, expect.not.stringContaining('clock')]);
  expect(told).toEqual([
    [
      { target: 'gcp-claude', err_message: expect.stringContaining('short-lived') },
      'there is no credential for a provider: set the clock of this machine',
    ],
    [expect.objectContaining({ target: 'gcp-claude' }), 'a provider failed'],
  ]);
});

test.each([
  [
    'invalid_client: AADSTS700024: Client assertion is not within its valid time range. Current time: 2026-12-02T10:00:00Z, assertion valid from 2026-12-02T09:00:00Z.',
    true,
  ],
  ['invalid_client: AADSTS7000215: Invalid client secret provided.', false],
  ['Signature not yet current: 20261202T100000Z is still later than', true],
  ['invalid_grant: Invalid JWT Signature.', false],
])('%s: the clock is to blame: %s', (message, is_clock) => {
  expect(clockHint(message) !== '').toBe(is_clock);
});

test.each<[AuthWay, RegExp]>([
  [{ form: 'google', google: {} }, /google: \{\}.*metadata server.*credentials_file_env/],
  [{ form: 'google', google: { credentials_file_env: 'F' } }, /oauth2\.googleapis\.com/],
  [{ form: 'entra', entra: 'managed_identity' }, /managed_identity.*client_secret_env/],
  [{ form: 'entra', entra: 'workload_identity' }, /login\.microsoftonline\.com/],
  [{ form: 'aws', aws: {} }, /aws: \{\}.*metadata server.*access_key_id_env/],
])('who never answers %j is named with what to do', async (way, words) => {
  const never = () => new Promise<never>(() => undefined);
  const held = new Renewal(never, { limit_ms: 5, silence: silenceOf(way) });
  await expect(held.current()).rejects.toThrow(words);
});
