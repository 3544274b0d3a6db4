import OpenAI, { RateLimitError } from 'openai';
import { arrivals, chat, forgetArrivals, post } from '../../support/gateway';
import { openAtMinute } from '../../support/limits';
import { until } from '../../support/until';
import { openWire } from '../../support/wire';
import { ask, CHAT, keyOf, newOrg, open, per, world } from './asking';

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
  expect(huge.error.message).toMatch(
    /needs \d{4} tokens and the limit of 2000 .* no repeat can pass/,
  );
  expect(huge.should_retry).toBe('false');
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

test('a request larger than a limit is told so at once, the one that only has to wait is not', async () => {
  const gateway = await open({
    ...per('global', { tpm: 300 }),
    global_rate_limit: { reject_action: 'queue', queue_timeout_ms: 60_000 },
    token_rate_limit: { pre_request_estimate: true },
  });
  // In a queue it would wait a minute for nothing.
  const client = new OpenAI({ baseURL: `${gateway.url}/v1`, apiKey: world.key, maxRetries: 2 });
  const body = { ...chat('word '.repeat(400)), stream: false as const };
  const error = await client.chat.completions.create(body as never).then(
    () => undefined,
    (thrown: RateLimitError) => thrown,
  );
  expect(error).toBeInstanceOf(RateLimitError);
  expect(error?.message).toContain('Make it smaller');
  // Two of the client's own repeats would have been counted.
  expect(gateway.gateway.limits.stats().requests_rejected_total).toBe(1);
});

test('a limit that is used up says when to repeat', async () => {
  const org = await newOrg();
  const { key } = await keyOf(org.org_id);
  const gateway = await open({
    ...per('per_key', { tpm: 300 }),
    token_rate_limit: { pre_request_estimate: true },
  });
  const body = chat('word '.repeat(200));
  expect((await ask(gateway, { key, body })).status).toBe(200);
  const again = await ask(gateway, { key, body });
  expect([again.status, again.should_retry]).toEqual([429, undefined]);
  expect(again.error.message).toMatch(/is reached\. Repeat the request in \d+ s\./);
});
