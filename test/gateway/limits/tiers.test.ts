import { request } from 'undici';
import { many } from '../../../domain/sql';
import {
  arrivals,
  chat,
  forgetArrivals,
  gatewayKey,
  openWorld,
  post,
  type TestGateway,
  type World,
} from '../../support/gateway';
import { credit, makeOrg, type TestOrg } from '../../support/ledger';
import { openAtMinute, openByClock } from '../../support/limits';
import { until } from '../../support/until';
import { openWire } from '../../support/wire';

const CHAT = '/v1/chat/completions';

let world: World;

beforeAll(async () => {
  world = await openWorld();
});
afterAll(() => world.close());

function open(settings: object): Promise<TestGateway> {
  return openAtMinute(world, { settings });
}

/** The status of one call, and what its headers and error say of limits. */
async function ask(
  gateway: TestGateway,
  { key = world.key, body = chat('hi'), headers = {} }: Asked = {},
) {
  const answer = await post(gateway.url + CHAT, key, body, headers);
  const error = answer.status < 400 ? undefined : JSON.parse(answer.text).error;
  return {
    status: answer.status,
    limit: Number(answer.headers['x-ratelimit-limit']),
    remaining: Number(answer.headers['x-ratelimit-remaining']),
    reset: Number(answer.headers['x-ratelimit-reset']),
    retry_after: answer.headers['retry-after'],
    error,
  };
}

interface Asked {
  key?: string;
  body?: object;
  headers?: Record<string, string>;
}

async function statuses(gateway: TestGateway, count: number, asked: Asked = {}) {
  const found: number[] = [];
  for (let n = 0; n < count; n += 1) found.push((await ask(gateway, asked)).status);
  return found;
}

async function keyOf(org_id: string, more: Parameters<typeof gatewayKey>[2] = {}) {
  const key = await gatewayKey(world.api, org_id, more);
  const [row] = await many<{ id: string }>(
    world.api.db,
    'select t.id from tokens t where t.org_id = :org_id order by t.created_at desc, t.id desc limit 1',
    { org_id },
  );
  return { key, key_id: row?.id as string };
}

async function newOrg(): Promise<TestOrg> {
  const org = await makeOrg(world.api.db);
  await credit(world.api.db, org.org_id, org.org_wallet, 10_000_000_000n);
  return org;
}

async function eventsOf(gateway: TestGateway, org_id: string) {
  await until(() => gateway.gateway.events.count() === 0);
  return many<{ type: string; action: string | null; payload: Record<string, unknown> }>(
    world.api.db,
    `select e.type, e.action, e.payload from events e
     where e.org_id = :org_id and e.type like 'rate_limit.%' order by e.id`,
    { org_id },
  );
}

const per = (scope: string, limits: object) => ({ rate_limits: { [scope]: limits } });

test('without limits nothing is limited, and nothing is said of limits', async () => {
  const org = await newOrg();
  const { key } = await keyOf(org.org_id);
  const gateway = await open({});
  const answer = await post(gateway.url + CHAT, key, chat('hi'));
  expect(Object.keys(answer.headers).filter((name) => name.startsWith('x-ratelimit'))).toEqual([]);
  expect(await eventsOf(gateway, org.org_id)).toEqual([]);
});

test('what remains falls with every request and equals the counter; then 429 with its headers and its scope', async () => {
  const gateway = await open(per('per_key', { rpm: 3 }));
  const answers = [];
  for (let n = 0; n < 4; n += 1) answers.push(await ask(gateway));
  expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 429]);
  expect(answers.map(({ remaining }) => remaining)).toEqual([2, 1, 0, 0]);
  expect(answers.every(({ limit }) => limit === 3)).toBe(true);
  const { error, retry_after, reset } = answers[3] as (typeof answers)[0];
  expect(retry_after).toMatch(/^[1-9]\d*$/);
  expect(reset * 1_000 - Date.now()).toBeLessThanOrEqual(61_000);
  expect(Math.abs(reset - Date.now() / 1_000 - Number(retry_after))).toBeLessThanOrEqual(2);
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
  const perKey = tiers.tiers[0]?.rulesOf({} as never)[0];
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

test('where no user is known, fallback_to_ip counts the address and false counts nothing', async () => {
  const limited = await open({
    ...per('per_user', { rpm: 2 }),
    user_rate_limit: { fallback_to_ip: true },
  });
  expect(await statuses(limited, 3)).toEqual([200, 200, 429]);
  const free = await open(per('per_user', { rpm: 2 }));
  expect(await statuses(free, 3)).toEqual([200, 200, 200]);
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

test('the limit of an address is not avoided by a forged X-Forwarded-For, and holds for wrong keys and for models', async () => {
  const gateway = await open(per('ip', { enabled: true, rpm: 5 }));
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

test('a burst above the rate of an address passes at once', async () => {
  const gateway = await open(per('ip', { enabled: true, rpm: 2, burst: 2 }));
  expect(await statuses(gateway, 5)).toEqual([200, 200, 200, 200, 429]);
});

test('a huge prompt against a nearly full token bucket is refused before the upstream', async () => {
  const org = await newOrg();
  const { key } = await keyOf(org.org_id);
  const gateway = await open({
    ...per('per_key', { tpm: 2_000 }),
    token_rate_limit: { pre_request_estimate: true },
  });
  await forgetArrivals(world.models_url);
  const huge = await ask(gateway, { key, body: chat('word '.repeat(2_500)) });
  expect(huge.error).toMatchObject({ scope: 'per_key', limit_type: 'tpm' });
  expect(await arrivals(world.models_url)).toHaveLength(0);
  expect((await ask(gateway, { key })).status).toBe(200);
});

test('after the answer the token counter holds what was used, neither more nor less', async () => {
  const org = await newOrg();
  const { key } = await keyOf(org.org_id);
  for (const [settings, parts] of [
    [{}, ['prompt_tokens', 'completion_tokens']],
    [
      { pre_request_estimate: true, tokenizer: 'cl100k_base' },
      ['prompt_tokens', 'completion_tokens'],
    ],
    [{ count_prompt_tokens: false }, ['completion_tokens']],
    [{ count_completion_tokens: false }, ['prompt_tokens']],
  ] as const) {
    const gateway = await open({ ...per('per_key', { tpm: 10_000 }), token_rate_limit: settings });
    const answer = await post(gateway.url + CHAT, key, chat('count me'));
    const { usage } = JSON.parse(answer.text);
    const used = parts.reduce((sum, part) => sum + usage[part], 0);
    await until(() => gateway.gateway.calls.size === 0);
    expect(gateway.gateway.limits.stats().remaining_tpm).toBe(10_000 - used);
  }
});

test('a call that its provider refuses gives its estimated tokens back', async () => {
  const gateway = await openAtMinute(world, {
    target: { base_url: 'http://127.0.0.1:1/v1' },
    settings: {
      ...per('per_key', { tpm: 10_000 }),
      token_rate_limit: { pre_request_estimate: true },
    },
  });
  expect((await ask(gateway)).status).toBe(502);
  await until(() => gateway.gateway.calls.size === 0);
  expect(gateway.gateway.limits.stats().remaining_tpm).toBeNull();
});

test('an exhausted token counter refuses also where nothing is estimated', async () => {
  const org = await newOrg();
  const { key } = await keyOf(org.org_id);
  const gateway = await open(per('per_key', { tpm: 10 }));
  expect((await ask(gateway, { key, body: chat('one two three four five six') })).status).toBe(200);
  expect((await ask(gateway, { key })).error).toMatchObject({ limit_type: 'tpm' });
});

test('calls under way: a second one is refused while the first runs, and passes when it has ended', async () => {
  const wire = await openWire(world.models_url);
  const gateway = await openAtMinute(world, {
    target: { base_url: `${wire.url}/v1` },
    settings: per('per_key', { max_parallel_requests: 1 }),
  });
  wire.set('late');
  const first = ask(gateway);
  await until(() => wire.lost() > 0);
  const refused = await ask(gateway);
  expect(refused.error).toMatchObject({ scope: 'per_key', limit_type: 'parallel' });
  expect([refused.limit, refused.remaining, refused.retry_after]).toEqual([1, 0, '1']);
  wire.set('pass');
  wire.release();
  expect((await first).status).toBe(200);
  expect((await ask(gateway)).status).toBe(200);
  await gateway.close();
  await wire.close();
});
