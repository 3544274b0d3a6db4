import OpenAI, { RateLimitError } from 'openai';
import { newKey } from '../../../domain/people/keys';
import { chat, post } from '../../support/gateway';
import { limitEvents, openByClock } from '../../support/limits';
import { until } from '../../support/until';
import { ask, CHAT, fundedKey, global, open, openRunning, world } from './behind-wire';

test('each decision is one event over all tiers, with the most constrained scope', async () => {
  const { org, key } = await fundedKey();
  const gateway = await open({
    rate_limits: { per_key: { rpm: 9, tpm: 5_000 }, per_user: { rpm: 2 }, global: { rpm: 50 } },
  });
  for (let n = 0; n < 3; n += 1) await ask(gateway, key);
  const events = await limitEvents(world, gateway, org.org_id);
  const [first, second, third] = events.map(({ payload }) => payload);
  expect(events.map(({ type, action }) => [type, action])).toEqual([
    ['rate_limit.checked', null],
    ['rate_limit.checked', null],
    ['rate_limit.exceeded', 'rate_limited'],
  ]);
  expect(first).toMatchObject({
    ...{ scope: 'per_user', user_id: org.user_id, team_id: null, remaining_rpm: 1 },
    identity_proof_method: 'gateway_key',
  });
  expect(first?.key_id).toEqual(expect.any(String));
  expect(first?.remaining_tpm).toBeLessThan(5_000);
  expect(second).toMatchObject({ remaining_rpm: 0 });
  expect(third).toMatchObject({
    ...{ scope: 'per_user', limit_type: 'rpm', limit_value: 2, current_value: 2 },
  });
});

test('an address that is refused is told of, where its key is known', async () => {
  const { org, key } = await fundedKey();
  const gateway = await open({ rate_limits: { ip: { enabled: true, rpm: 1 } } });
  expect([(await ask(gateway, key)).status, (await ask(gateway, key)).status]).toEqual([200, 429]);
  const events = await limitEvents(world, gateway, org.org_id);
  expect(events.map(({ type, payload }) => [type, payload.scope])).toEqual([
    ['rate_limit.checked', 'ip'],
    ['rate_limit.exceeded', 'ip'],
  ]);
});

test('a known caller is told of also while an unknown one is asked for', async () => {
  const { org, key } = await fundedKey();
  const gateway = await open({ rate_limits: { ip: { enabled: true, rpm: 1 } } });
  expect((await ask(gateway, key)).status).toBe(200);
  // Nobody's key can be looked up meanwhile.
  const lock = await world.api.db.transaction();
  await lock.raw('lock table tokens in access exclusive mode');
  const unknown = await ask(gateway, await newKey('gateway'));
  const is_asking = gateway.gateway.identities.isAsking();
  const known = await ask(gateway, key);
  await lock.rollback();
  expect([unknown.status, is_asking, known.status]).toEqual([429, true, 429]);
  await until(() => !gateway.gateway.identities.isAsking());
  const events = await limitEvents(world, gateway, org.org_id);
  expect(events.map(({ type }) => type)).toEqual(['rate_limit.checked', 'rate_limit.exceeded']);
});

test('a global limit that is reached opens the circuit once: until its window ends nothing passes another tier', async () => {
  const { org, key } = await fundedKey();
  const [second, third] = [await fundedKey(), await fundedKey()];
  let now = 1_000;
  const settings = { rate_limits: { global: { rpm: 2 }, per_key: { rpm: 1 } } };
  const gateway = await openByClock(world, { settings }, () => now);
  expect((await ask(gateway, key)).status).toBe(200);
  expect((await ask(gateway, key)).error.scope).toBe('per_key');
  expect((await ask(gateway, second.key)).status).toBe(200);
  const scopes = [];
  for (const one of [third.key, key, key, third.key])
    scopes.push((await ask(gateway, one)).error.scope);
  expect(scopes).toEqual(['global', 'global', 'global', 'global']);
  const ours = (await limitEvents(world, gateway, org.org_id)).map(({ type }) => type);
  expect(ours).not.toContain('rate_limit.circuit_open');
  expect(
    (await limitEvents(world, gateway, third.org.org_id)).map(({ type }) => type).sort(),
  ).toEqual(['rate_limit.circuit_open', 'rate_limit.exceeded', 'rate_limit.exceeded']);
  // The circuit ends with the window.
  now += 60_000;
  expect((await ask(gateway, third.key)).status).toBe(200);
});

test('one request too large for the global tokens is refused alone', async () => {
  const gateway = await open({
    ...global({ tpm: 1_000 }),
    token_rate_limit: { pre_request_estimate: true },
  });
  const huge = await post(gateway.url + CHAT, world.key, chat('word '.repeat(2_000)));
  expect([huge.status, (await ask(gateway)).status]).toEqual([429, 200]);
});

test('a global limit that queues lets requests wait for its next window', async () => {
  const gateway = await openRunning(
    global({ rpm: 3 }, { window_seconds: 1, reject_action: 'queue', queue_timeout_ms: 120_000 }),
  );
  const began = performance.now();
  const answers = await Promise.all(Array.from({ length: 9 }, () => ask(gateway)));
  expect(answers.map(({ status }) => status)).toEqual(Array(9).fill(200));
  // Nine in windows of three take two whole ones at least.
  expect(performance.now() - began).toBeGreaterThan(1_000);
});

test('who waits longer than queue_timeout_ms is refused then', async () => {
  const gateway = await open(global({ rpm: 1 }, { reject_action: 'queue', queue_timeout_ms: 300 }));
  expect((await ask(gateway)).status).toBe(200);
  const began = performance.now();
  const { status, headers } = await ask(gateway);
  const took = performance.now() - began;
  expect(status).toBe(429);
  // Its window never ends, so that it would wait for ever.
  expect(took).toBeGreaterThanOrEqual(290);
  expect(Number(headers['retry-after'])).toBeGreaterThanOrEqual(1);
});

test('who waits behind others is told of the counter too', async () => {
  const { org, key } = await fundedKey();
  const gateway = await open(global({ rpm: 1 }, { reject_action: 'queue', queue_timeout_ms: 200 }));
  const answers = await Promise.all([ask(gateway, key), ask(gateway, key), ask(gateway, key)]);
  expect(answers.map(({ status }) => status).sort()).toEqual([200, 429, 429]);
  const told = (await limitEvents(world, gateway, org.org_id)).filter(
    ({ action }) => action !== null,
  );
  expect(told.map(({ payload }) => payload.current_value)).toEqual([1, 1]);
});

test('an address is counted where nothing is priced: a path of sockets asked as plain HTTP', async () => {
  const gateway = await open({ rate_limits: { ip: { enabled: true, rpm: 2 } } });
  const found: number[] = [];
  for (let n = 0; n < 3; n += 1) {
    const wrong = { authorization: `Bearer svc_gk_${'0'.repeat(40)}` };
    const answer = await fetch(`${gateway.url}/v1/responses/ws`, { headers: wrong });
    await answer.text();
    found.push(answer.status);
  }
  expect(found).toEqual([401, 401, 429]);
});

test('an address that guesses keys is refused also while the global limit refuses everything', async () => {
  const gateway = await open({
    rate_limits: { global: { rpm: 1 }, ip: { enabled: true, rpm: 3 } },
  });
  const wrong = `svc_gk_${'0'.repeat(40)}`;
  const found: (string | number)[] = [];
  for (const key of [world.key, world.key, wrong, wrong, wrong]) {
    const { status, error } = await ask(gateway, key);
    found.push(error.scope ?? status);
  }
  expect(found).toEqual([200, 'global', 401, 401, 'ip']);
});

test("OpenAI's client sees the refusal with its headers, its code and its scope", async () => {
  const { key } = await fundedKey();
  const gateway = await open({ rate_limits: { per_user: { rpm: 1 } } });
  const client = new OpenAI({ apiKey: key, baseURL: `${gateway.url}/v1`, maxRetries: 0 });
  const call = () =>
    client.chat.completions.create({
      model: 'gpt-4o-mini',
      messages: [{ role: 'user', content: 'hi' }],
    });
  const { response } = await call().withResponse();
  expect(response.headers.get('x-ratelimit-remaining')).toBe('0');
  const error = await call().catch((thrown: unknown) => thrown as RateLimitError);
  expect(error).toBeInstanceOf(RateLimitError);
  expect(error).toMatchObject({
    status: 429,
    code: 'rate_limit_exceeded',
    type: 'rate_limit_error',
  });
  const { headers, error: inner } = error as RateLimitError;
  expect((inner as { scope?: string }).scope).toBe('per_user');
  expect(Number(headers?.get('retry-after'))).toBeGreaterThanOrEqual(1);
  expect(headers?.get('x-ratelimit-limit')).toBe('1');
});
