import { message } from '../../support/gateway';
import { ask, key, openKind, spoken, upstream, world } from './kinded';

// What Claude Code sends, as far as its other sellers refuse it.
const code_headers = {
  'anthropic-version': '2023-06-01',
  'anthropic-beta':
    'claude-code-20250219, interleaved-thinking-2025-05-14,prompt-caching-scope-2026-01-05',
};
const code_body = {
  ...message('Hello', { model: 'the-model' }),
  service_tier: 'auto',
  metadata: { user_id: 'u' },
  system: [
    { type: 'text', text: 'Be brief.', cache_control: { type: 'ephemeral', scope: 'global' } },
  ],
};

test('what is left out is told to the log, once for each name', async () => {
  const row = { id: 't', base_url: `${upstream.url}/base`, ...key, models: ['the-model'] };
  const targets = [{ ...row, kind: 'bedrock', region: 'eu-west-1' }];
  const made = await world.openGateway({ settings: { providers: { targets } } });
  const told: unknown[] = [];
  made.gateway.log.info = (given: unknown) => void told.push(given);
  for (let count = 0; count < 3; count += 1) {
    upstream.play([spoken], 'application/json');
    await ask(made.url, code_body, '/v1/messages', code_headers);
  }
  expect(told).toEqual([
    { target: 't', names: ['claude-code-20250219', 'prompt-caching-scope-2026-01-05'] },
    { target: 't', names: ['service_tier', 'cache_control.scope'] },
  ]);
});

test.each([
  [{ kind: 'bedrock', region: 'eu-west-1' }, '/base/model/eu.anthropic.claude%3A0/invoke'],
  [{ kind: 'bedrock', region: 'eu-west-1', endpoint: 'mantle' }, '/base/v1/messages'],
  [{ kind: 'deepseek', shape: 'anthropic' }, '/base/v1/messages'],
  [{ kind: 'azure', shape: 'anthropic' }, '/base/v1/messages'],
])('headers and members of a coding agent are filtered for %j', async (target, path) => {
  const models = [{ name: 'the-model', upstream: 'eu.anthropic.claude:0' }];
  const url = await openKind({ ...target, models });
  upstream.play([spoken], 'application/json');
  const { status, arrived, charge } = await ask(url, code_body, '/v1/messages', code_headers);
  expect(status).toBe(200);
  expect(arrived?.path).toBe(path);
  const { body = {}, headers = {} } = arrived ?? {};
  if (target.kind === 'bedrock') {
    expect(body).not.toHaveProperty('service_tier');
    expect(JSON.stringify(body)).not.toContain('scope');
    expect(body.system).toMatchObject([{ cache_control: { type: 'ephemeral' } }]);
  }
  if (path.endsWith('invoke')) {
    expect(headers['anthropic-beta']).toBeUndefined();
    expect(headers['anthropic-version']).toBeUndefined();
    expect(body).not.toHaveProperty('model');
    expect(body).toMatchObject({
      anthropic_version: 'bedrock-2023-05-31',
      anthropic_beta: ['interleaved-thinking-2025-05-14'],
      metadata: { user_id: 'u' },
    });
  } else if (target.kind === 'bedrock')
    expect(headers['anthropic-beta']).toBe('claude-code-20250219,interleaved-thinking-2025-05-14');
  else if (target.kind === 'deepseek') expect(headers['anthropic-beta']).toBeUndefined();
  else expect(headers['anthropic-beta']).toBe(code_headers['anthropic-beta']);
  expect((await charge()).actual_cost_nanos).toBe(200_000n);
});

test('where no route counts tokens, they are counted here, and nobody is asked', async () => {
  const url = await openKind({ kind: 'bedrock', region: 'eu-west-1' });
  upstream.play(['{}'], 'application/json');
  const { max_tokens: _, ...body } = message('Hello', { model: 'the-model' });
  const { status, text } = await ask(url, body, '/v1/messages/count_tokens');
  expect([status, JSON.parse(text)]).toEqual([200, { input_tokens: expect.any(Number) }]);
  expect(upstream.arrived).toEqual([]);
});
