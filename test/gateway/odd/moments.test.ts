import { chat, gatewayKey, openWorld, post, type World } from '../../support/gateway';
import { openScripted, type Scripted } from '../../support/upstream';

// Words that sound like a broken account and speak of one request, or of the next seconds: the
// target goes on serving all others.

let world: World;
let scripted: Scripted;
let url: string;
let key: string;

beforeAll(async () => {
  world = await openWorld();
  scripted = await openScripted();
  const auth = { key_env: 'TEST_MODELS_KEY' };
  const base_url = `${scripted.url}/v1`;
  const targets = [
    { id: 'chats', provider: 'openai', kind: 'gemini', auth, base_url, models: ['gpt-4o-mini'] },
    {
      ...{ id: 'native', provider: 'openai', kind: 'gemini', shape: 'gemini', auth },
      ...{ base_url: scripted.url, models: ['gpt-4o'] },
    },
    { id: 'own', kind: 'openai', auth, base_url, models: ['o4-mini'] },
  ];
  const circuit_breaker = { enabled: true, failures: 2, open_ms: 60_000 };
  ({ url } = await world.openGateway({ settings: { providers: { targets }, circuit_breaker } }));
  key = await gatewayKey(world.api, world.org.org_id);
});
afterAll(async () => {
  await world.close();
  await scripted.close();
});

const play = (said: unknown, status: number) =>
  scripted.play([JSON.stringify(said)], 'application/json', status);
const quota =
  'You exceeded your current quota, please check your plan and billing details. For more information on this error, head to: https://ai.google.dev/gemini-api/docs/rate-limits. To monitor your current usage, head to: https://ai.dev/rate-limit. \n* Quota exceeded for metric: generativelanguage.googleapis.com/generate_content_paid_tier_input_token_count, limit: 1000000, model: gemini-2.5-pro';
const google = (message: string, wait?: string) => ({
  error: {
    code: 429,
    message,
    status: 'RESOURCE_EXHAUSTED',
    details: [
      {
        '@type': 'type.googleapis.com/google.rpc.QuotaFailure',
        violations: [{ quotaId: 'GenerateContentPaidTierInputTokensPerModelPerMinute' }],
      },
      ...(wait === undefined
        ? []
        : [{ '@type': 'type.googleapis.com/google.rpc.RetryInfo', retryDelay: wait }]),
    ],
  },
});
const compatible = { path: '/v1/chat/completions', model: 'gpt-4o-mini' };
const native = { path: '/v1/unified/chat/completions', model: 'gpt-4o' };

test.each([
  ['with a wait among its details', compatible, [google(quota, '47s')], '47'],
  ['with a wait in its text', compatible, [google(`${quota}\nPlease retry in 46.57s.`)], '47'],
  ['on its own wire, by its details', native, google(quota, '46.2s'), '47'],
  ['on its own wire, in its text', native, google(`${quota}\nPlease retry in 46.57s.`), '47'],
])('Google’s limit of a minute %s is a 429 that passes', async (_, way, said, wait) => {
  for (let asked = 0; asked < 4; asked += 1) {
    play(said, 429);
    const { status, headers, text } = await post(url + way.path, key, {
      ...chat('Hello'),
      model: way.model,
    });
    expect({ status, wait: headers['retry-after'] }).toEqual({ status: 429, wait });
    expect(scripted.arrived).toHaveLength(1);
    expect(text).not.toMatch(/billing|plan/);
  }
});

test('a quota without a wait is the account’s, which opens the circuit', async () => {
  for (const asked of [1, 1, 0]) {
    play([google(quota)], 429);
    const { status } = await post(url + compatible.path, key, chat('Hello'));
    expect([status, scripted.arrived.length]).toEqual([asked === 1 ? 502 : 503, asked]);
  }
});

const verify =
  'Please go to: https://platform.openai.com/settings/organization/general and click on Verify Organization. If you just verified, it can take up to 15 minutes for access to propagate.';

test.each([
  ['reasoning.summary', 'generate reasoning summaries', 400],
  ['stream', 'stream this model', 400],
  ['model', 'use the model `gpt-image-1`', 403],
  [null, 'use the model `gpt-image-1`', 403],
])('one tenant’s option (%s) that the account lacks shuts nothing', async (param, what, status) => {
  for (let asked = 0; asked < 4; asked += 1) {
    const message = `Your organization must be verified to ${what}. ${verify}`;
    const type = 'invalid_request_error';
    play({ error: { message, type, param, code: 'unsupported_value' } }, status);
    const answer = await post(`${url}/v1/responses`, key, {
      ...{ model: 'o4-mini', input: 'Hello', max_output_tokens: 16 },
      reasoning: { summary: 'auto' },
    });
    expect(scripted.arrived).toHaveLength(1);
    expect([answer.status, answer.text]).toEqual([
      status,
      expect.stringContaining('The provider does not serve'),
    ]);
    if (param !== null) expect(answer.text).toContain(param);
    expect(answer.text).not.toMatch(/verified|organization\/general/);
  }
});

test.each([
  'This request requires more credits, or fewer max_tokens. You requested up to 60000 tokens, but can only afford 9876. To increase, visit https://openrouter.ai/settings/credits',
  'Prompt tokens limit exceeded: 230799 > 91442. To increase, visit https://openrouter.ai/settings',
])('one tenant’s request that the account cannot afford shuts nothing: %s', async (message) => {
  for (let asked = 0; asked < 4; asked += 1) {
    play({ error: { message, code: 402, metadata: { provider_name: null } } }, 402);
    const body = { model: 'o4-mini', input: 'Hello', max_output_tokens: 60_000 };
    const { status, text } = await post(`${url}/v1/responses`, key, body);
    expect(scripted.arrived).toHaveLength(1);
    expect([status, text]).toEqual([400, expect.stringContaining('of this size')]);
    expect(text).not.toMatch(/openrouter|afford/);
  }
});
