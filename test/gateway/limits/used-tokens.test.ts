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
