import { chat, post } from '../../support/gateway';
import { limitEvents, openByClock } from '../../support/limits';
import { ask, CHAT, keyOf, newOrg, open, per, statuses, world } from './asking';

test('without limits nothing is limited, and nothing is said of limits', async () => {
  const org = await newOrg();
  const { key } = await keyOf(org.org_id);
  const gateway = await open({});
  const answer = await post(gateway.url + CHAT, key, chat('hi'));
  expect(Object.keys(answer.headers).filter((name) => name.startsWith('x-ratelimit'))).toEqual([]);
  expect(await limitEvents(world, gateway, org.org_id)).toEqual([]);
});

test('what remains falls with every request and equals the counter; then 429 with its headers and its scope', async () => {
  const gateway = await open(per('per_key', { rpm: 3 }));
  const answers = [];
  for (let n = 0; n < 3; n += 1) answers.push(await ask(gateway));
  const before_s = Date.now() / 1_000;
  answers.push(await ask(gateway));
  const after_s = Date.now() / 1_000;
  expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 429]);
  expect(answers.map(({ remaining }) => remaining)).toEqual([2, 1, 0, 0]);
  expect(answers.every(({ limit }) => limit === 3)).toBe(true);
  const { error, retry_after, reset } = answers[3] as (typeof answers)[0];
  expect(retry_after).toMatch(/^[1-9]\d*$/);
  // The minute is a second old.
  expect(reset).toBeGreaterThanOrEqual(before_s + 58);
  expect(reset).toBeLessThanOrEqual(after_s + 61);
  expect(before_s + Number(retry_after)).toBeLessThanOrEqual(reset + 1);
  expect(after_s + Number(retry_after)).toBeGreaterThanOrEqual(reset - 1);
  expect(error).toMatchObject({
    ...{ code: 'rate_limit_exceeded', type: 'rate_limit_error', param: null },
    ...{ scope: 'per_key', limit_type: 'rpm' },
  });
  expect(error.message).toContain('per_key');
  expect(gateway.gateway.limits.stats()).toMatchObject({
    ...{ requests_allowed_total: 3, requests_rejected_total: 1, remaining_rpm: 0 },
    remaining_tpm: null,
  });
});

test('streams and errors after the limits carry the headers too', async () => {
  const gateway = await open(per('per_key', { rpm: 30 }));
  const stream = await ask(gateway, { body: chat('hi', { stream: true }) });
  const unpriced = await ask(gateway, { body: { ...chat('hi'), model: 'unpriced' } });
  expect([stream.status, unpriced.status]).toEqual([200, 422]);
  expect([stream.remaining, unpriced.remaining]).toEqual([29, 28]);
});

test.each(['per_key', 'per_user', 'per_team', 'global'])(
  'the limit %s refuses by itself, and names itself',
  async (scope) => {
    const org = await newOrg();
    const { key } = await keyOf(org.org_id, { user_id: org.user_id, team_id: org.team_id });
    const gateway = await open(per(scope, { rpm: 1 }));
    expect((await ask(gateway, { key })).status).toBe(200);
    expect((await ask(gateway, { key })).error).toMatchObject({ scope, limit_type: 'rpm' });
  },
);

test('user and team limits both apply: neither replaces the other, and two keys of a user count together', async () => {
  const org = await newOrg();
  const member = { user_id: org.user_id, team_id: org.team_id };
  const first = await keyOf(org.org_id, member);
  const second = await keyOf(org.org_id, member);
  const team = await keyOf(org.org_id, { team_id: org.team_id });
  const gateway = await open({ rate_limits: { per_user: { rpm: 2 }, per_team: { rpm: 3 } } });
  expect(await statuses(gateway, 1, first)).toEqual([200]);
  expect(await statuses(gateway, 2, second)).toEqual([200, 429]);
  expect(await statuses(gateway, 1, team)).toEqual([200]);
  expect((await ask(gateway, team)).error.scope).toBe('per_team');
});

test('a request that a later tier refuses gives back what the earlier ones counted', async () => {
  const org = await newOrg();
  const { key, key_id } = await keyOf(org.org_id);
  const gateway = await open({
    rate_limits: { per_key: { rpm: 5 }, ip: { enabled: true, rpm: 6 } },
    consumer_groups: [{ name: 'small', rate_limits: { rpm: 2 }, keys: [key_id] }],
  });
  expect(await statuses(gateway, 20, { key })).toEqual([200, 200, ...Array(18).fill(429)]);
  const counts = gateway.gateway.limits.counters;
  const tiers = gateway.gateway.snapshot.limits;
  const perKey = tiers.tiers[0]?.rulesOf({ identity: {} } as never)[0];
  expect(counts.check(perKey as never, key_id, 1, 0).bucket.count.slots[1]).toBe(2);
  expect(counts.check(tiers.ip?.rule as never, '127.0.0.1', 1, 0).bucket.count.slots[1]).toBe(2);
});

test('a group counts all its keys together, after the key, and takes from its profile what it does not set', async () => {
  const org = await newOrg();
  const one = await keyOf(org.org_id);
  const other = await keyOf(org.org_id);
  const gateway = await open({
    rate_limit_profiles: [{ name: 'base', rpm: 3, tpm: 100_000 }],
    consumer_groups: [
      {
        ...{ name: 'batch', inherits: 'base', rate_limits: { tpm: 50_000 } },
        keys: [one.key_id, other.key_id],
      },
    ],
  });
  expect(await statuses(gateway, 2, one)).toEqual([200, 200]);
  expect(await statuses(gateway, 2, other)).toEqual([200, 429]);
  expect((await ask(gateway, other)).error).toMatchObject({ scope: 'consumer_group' });
  expect(await statuses(gateway, 2)).toEqual([200, 200]);
  const { remaining_tpm } = gateway.gateway.limits.stats();
  expect(remaining_tpm).toBeGreaterThan(40_000);
  expect(remaining_tpm).toBeLessThan(50_000);
});

test('in gateway_key mode a user that the client names changes nothing', async () => {
  const org = await newOrg();
  const { key } = await keyOf(org.org_id, { user_id: org.user_id });
  const gateway = await open(per('per_user', { rpm: 2 }));
  const answers = [];
  for (let n = 0; n < 4; n += 1) {
    answers.push((await ask(gateway, { key, headers: { 'x-user-id': `user ${n}` } })).status);
  }
  expect(answers).toEqual([200, 200, 429, 429]);
});

test.each(['per_user', 'global'])(
  'the window of %s is fixed or slides, as its strategy says, and is as long as it says',
  async (scope) => {
    const org = await newOrg();
    const { key } = await keyOf(org.org_id, { user_id: org.user_id });
    let now = 0;
    for (const [strategy, after_the_edge] of [
      ['fixed_window', 200],
      ['sliding_window', 429],
    ] as const) {
      const settings = {
        ...per(scope, { rpm: 2 }),
        user_rate_limit: { strategy, window_seconds: 30 },
        global_rate_limit: { strategy, window_seconds: 30 },
      };
      const gateway = await openByClock(world, { settings }, () => now);
      now = 29_000;
      expect(await statuses(gateway, 2, { key })).toEqual([200, 200]);
      now = 30_000;
      expect(await statuses(gateway, 1, { key })).toEqual([after_the_edge]);
    }
  },
);

test('in header_soft mode users and teams are what the configured headers say', async () => {
  const gateway = await open({
    ...per('per_user', { rpm: 1 }),
    identity: { mode: 'header_soft', org_id: world.org.org_id },
    user_rate_limit: { header: 'X-Who' },
  });
  const by = (who: string) => ask(gateway, { headers: { 'x-who': who } });
  expect([(await by('ann')).status, (await by('bob')).status, (await by('ann')).status]).toEqual([
    200, 200, 429,
  ]);
});
