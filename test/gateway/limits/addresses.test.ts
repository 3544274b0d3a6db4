import { request } from 'undici';
import { addressOf } from '../../../runtime/client-address';
import { createNetworks } from '../../../runtime/networks';
import { ask, open, per, statuses, world } from './asking';

test('where no user is known, fallback_to_ip counts the address and false counts nothing', async () => {
  const limited = await open({
    ...per('per_user', { rpm: 2 }),
    user_rate_limit: { fallback_to_ip: true },
  });
  expect(await statuses(limited, 3)).toEqual([200, 200, 429]);
  const free = await open(per('per_user', { rpm: 2 }));
  expect(await statuses(free, 3)).toEqual([200, 200, 200]);
});

test('the limit of an address is not avoided by a forged X-Forwarded-For, and holds for wrong keys and for models', async () => {
  const gateway = await open(per('ip', { enabled: true, rpm: 5, trusted_proxies: [] }));
  const answers: number[] = [];
  for (let n = 0; n < 4; n += 1) {
    answers.push((await ask(gateway, { headers: { 'x-forwarded-for': `10.0.0.${n}` } })).status);
  }
  answers.push((await ask(gateway, { key: `svc_gk_${'x'.repeat(43)}` })).status);
  const models = await request(`${gateway.url}/v1/models`, {
    headers: { authorization: `Bearer ${world.key}` },
  });
  expect([...answers, models.statusCode]).toEqual([200, 200, 200, 200, 401, 429]);
  const told = (await models.body.json()) as { error: object };
  expect(told.error).toMatchObject({ code: 'rate_limit_exceeded', scope: 'ip' });
  expect(models.headers['x-ratelimit-remaining']).toBe('0');
});

test('behind a trusted proxy the right-most address that is none of its kind counts', async () => {
  const gateway = await open(
    per('ip', {
      ...{ enabled: true, rpm: 1, trusted_proxies: ['127.0.0.0/8', '::1', '10.0.0.0/8'] },
      ...{ header: 'X-Real-Chain', whitelist: ['192.0.2.0/24'] },
    }),
  );
  const from = async (chain: string) =>
    (await ask(gateway, { headers: { 'x-real-chain': chain } })).status;
  expect(await from('1.1.1.1, 203.0.113.7, 10.1.1.1')).toBe(200);
  expect(await from('2.2.2.2, 203.0.113.7')).toBe(429);
  expect(await from('203.0.113.8:4711')).toBe(200);
  expect([await from('192.0.2.9'), await from('192.0.2.9')]).toEqual([200, 200]);
  expect(await from('2001:db8:1:2:3::1')).toBe(200);
  expect(await from('[2001:db8:1:2:ffff::9]:80')).toBe(429);
  expect(await from('2001:db8:1:3::1')).toBe(200);
  // What is no address is not believed: the proxy itself counts.
  expect([await from('9.9.9.9, unknown'), await from('8.8.8.8, _hidden')]).toEqual([200, 429]);
});

test('proxies on this machine and in private networks are believed where nothing else is said', async () => {
  const gateway = await open(per('ip', { enabled: true, rpm: 1 }));
  const from = async (chain: string) =>
    (await ask(gateway, { headers: { 'x-forwarded-for': chain } })).status;
  expect([await from('203.0.113.7'), await from('203.0.113.8')]).toEqual([200, 200]);
  expect(await from('203.0.113.9, 203.0.113.7')).toBe(429);
  for (const proxy of ['10.1.1.1', '172.31.0.1', '192.168.1.1', '::1', 'fd00::1', '127.0.0.9'])
    expect([proxy, await from(`203.0.113.8, ${proxy}`)]).toEqual([proxy, 429]);
  // These are no private ones.
  for (const proxy of ['172.32.0.1', '11.0.0.1', '192.169.0.1', '2001:db8::1'])
    expect([proxy, await from(`203.0.113.8, ${proxy}`)]).toEqual([proxy, 200]);
});

test('a burst above the rate of an address passes at once', async () => {
  const gateway = await open(per('ip', { enabled: true, rpm: 2, burst: 2 }));
  expect(await statuses(gateway, 5)).toEqual([200, 200, 200, 200, 429]);
});

test.each([
  '::ffff:203.0.113.20',
  '::ffff:cb00:7114',
  '::FFFF:CB00:7114',
  '0:0:0:0:0:ffff:cb00:7114',
  '[::ffff:cb00:7114]:80',
])('an IPv4 address is counted as itself in the spelling %s', (said) => {
  const req = { headers: { 'x-forwarded-for': said }, socket: { remoteAddress: '127.0.0.1' } };
  const trusted = createNetworks(['127.0.0.0/8']);
  expect(addressOf(req, { header: 'x-forwarded-for', trusted })).toBe('203.0.113.20');
});
