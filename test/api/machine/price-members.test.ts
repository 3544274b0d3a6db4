import type { Db } from '../../../domain/sql';
import { type CallApi, makeTenant, refusal, startApi } from '../../support/api';
import { gatewayToken } from '../../support/keys';
import { BODY_HASH, chat, credit, makePrice } from '../../support/ledger';

let db: Db;
let call: CallApi;
let close: () => Promise<void>;
let key: string;
let org_id: string;

beforeAll(async () => {
  ({ db, call, close } = await startApi());
  key = await gatewayToken(db);
  const tenant = await makeTenant(db);
  org_id = tenant.org_id;
  await credit(db, org_id, tenant.wallet_id, 100_000_000_000n);
  await makePrice(db, {
    per_web_search: 0.01,
    service_tiers: JSON.stringify({ priority: 2 }),
  });
});

afterAll(() => close());

// As a gateway of the version before sends them.
const reserveBody = {
  ...chat,
  user_id: null,
  team_id: null,
  agent_id: null,
  key_id: null,
  secret_id: null,
  family: 'chat_completions',
  estimated_prompt_tokens: 1_000,
  max_completion_tokens: 100,
  request_body_hash: BODY_HASH,
};
const used = {
  prompt_tokens: 1_000,
  completion_tokens: 100,
  cached_tokens: 0,
  cache_write_tokens: 0,
  reasoning_tokens: 0,
  audio_input_tokens: 0,
  audio_output_tokens: 0,
};

const reserve = (more: object) =>
  call('post', '/v1/gateway/wallets/reserve', { key, body: { org_id, ...reserveBody, ...more } });
const settle = (body: object) =>
  call('post', '/v1/gateway/wallets/settle', { key, body: { org_id, ...body } });

test('bodies of the version before are answered as before, and its usage is kept as it was told', async () => {
  const held = await reserve({ request_id: 'old' });
  expect(held.body).toMatchObject({ estimated_cost: 0.0012, reserved_amount: 0.0012 });
  expect((await reserve({ request_id: 'old' })).body).toEqual(held.body);
  const { reservation_id } = held.body;
  const body = { reservation_id, outcome: 'completed', usage: used, usage_source: 'upstream' };
  const settled = await settle(body);
  expect(settled.body).toMatchObject({ status: 'settled', actual_cost: 0.0012 });
  expect((await settle(body)).body).toEqual(settled.body);
  const { usage } = await db('reservations').where({ id: reservation_id }).first();
  expect(usage).toEqual({
    ...used,
    cache_write_1h_tokens: 0,
    characters: 0,
    seconds: 0,
    tool_calls: 0,
  });
});

interface Replay {
  price: Record<string, unknown>;
  reserve: object;
  estimated: number;
  settle: { usage: object; [member: string]: unknown };
  actual: number;
}

const long = [{ above_prompt_tokens: 200, input_per_1m: 2, output_per_1m: 4 }];

// What a price of the version before said, and what it charged.
test.each<[string, Replay]>([
  [
    'characters',
    {
      price: { model: 'speaker', input_per_1m: 0, output_per_1m: 0, per_1m_characters: 15 },
      reserve: { units: { characters: 1_000 }, max_completion_tokens: 0 },
      estimated: 0.015,
      settle: { usage: { ...used, completion_tokens: 0, characters: 1_000 } },
      actual: 0.015,
    },
  ],
  [
    'minutes',
    {
      price: { model: 'listener', input_per_1m: 0, output_per_1m: 0, per_minute: 0.006 },
      reserve: { units: { seconds: 90 }, estimated_prompt_tokens: 0, max_completion_tokens: null },
      estimated: 0.009,
      settle: { usage: { ...used, seconds: 30 } },
      actual: 0.003,
    },
  ],
  [
    'both units, with null for what is not there',
    {
      price: { model: 'both', per_minute: 0.006, per_1m_characters: 15 },
      reserve: { units: { characters: 1_000, seconds: 60 }, fallbacks: null, session_id: null },
      estimated: 0.0222,
      settle: { usage: { ...used, characters: 2_000, seconds: 0 } },
      actual: 0.0312,
    },
  ],
  [
    'runs of tools and a price per request',
    {
      price: { model: 'worker', per_tool_call: 0.01, per_request: 0.001 },
      reserve: { units: null },
      estimated: 0.0022,
      settle: { usage: { ...used, tool_calls: 2 } },
      actual: 0.0222,
    },
  ],
  [
    'a dearer fallback that serves',
    {
      price: { model: 'dear', input_per_1m: 10, output_per_1m: 20 },
      reserve: { model: chat.model, fallbacks: [{ provider: 'openai', model: 'dear' }] },
      estimated: 0.012,
      settle: { usage: used, provider: 'openai', model: 'dear' },
      actual: 0.012,
    },
  ],
  [
    'a dearer fallback that does not serve',
    {
      price: { model: 'spare', input_per_1m: 10, output_per_1m: 20 },
      reserve: { model: chat.model, fallbacks: [{ provider: 'openai', model: 'spare' }] },
      estimated: 0.012,
      settle: { usage: used },
      actual: 0.0012,
    },
  ],
  [
    'a tier that the prompt reaches',
    {
      price: { model: 'long', tiers: JSON.stringify(long) },
      reserve: {},
      estimated: 0.0024,
      settle: { usage: used },
      actual: 0.0024,
    },
  ],
  [
    'a tier that the prompt does not reach in the end',
    {
      price: { model: 'short', tiers: JSON.stringify(long) },
      reserve: {},
      estimated: 0.0024,
      settle: { usage: { ...used, prompt_tokens: 200 }, usage_source: 'estimated' },
      actual: 0.0004,
    },
  ],
  [
    'a tier at its edge, with cached tokens at the base',
    {
      price: { model: 'edge', cached_input_per_1m: 0.1, tiers: JSON.stringify(long) },
      reserve: { estimated_prompt_tokens: 200 },
      estimated: 0.0004,
      settle: { usage: { ...used, prompt_tokens: 200, cached_tokens: 100 } },
      actual: 0.00031,
    },
  ],
  [
    'sound, thought and writes to the cache',
    {
      price: {
        model: 'sound',
        cached_input_per_1m: 0.1,
        cache_write_per_1m: 1.25,
        cache_write_1h_per_1m: 2,
        audio_input_per_1m: 40,
        audio_output_per_1m: 80,
      },
      reserve: {},
      estimated: 0.0012,
      settle: {
        usage: {
          ...used,
          cached_tokens: 100,
          cache_write_tokens: 100,
          cache_write_1h_tokens: 100,
          audio_input_tokens: 100,
          reasoning_tokens: 50,
          audio_output_tokens: 50,
        },
      },
      actual: 0.009035,
    },
  ],
])('%s cost what they cost in the version before', async (name, replay) => {
  await makePrice(db, replay.price);
  const { model } = replay.price;
  const asked = { request_id: `old ${name}`, model, ...replay.reserve };
  const held = await reserve(asked);
  expect([held.status, held.body.estimated_cost]).toEqual([200, replay.estimated]);
  expect((await reserve(asked)).body).toEqual(held.body);
  const { reservation_id } = held.body;
  const body = {
    reservation_id,
    outcome: 'completed',
    usage_source: 'upstream',
    ...replay.settle,
  };
  const settled = await settle(body);
  expect(settled.body).toMatchObject({ status: 'settled', actual_cost: replay.actual });
  expect((await settle(body)).body).toEqual(settled.body);
});

test('a tier and searches of a reserve are part of its body: another one is another request', async () => {
  const asked = { request_id: 'new', service_tier: 'priority', units: { web_searches: 1 } };
  const held = await reserve(asked);
  expect(held.body.reserved_amount).toBe(0.0124);
  expect((await reserve(asked)).body).toEqual(held.body);
  expect(refusal(await reserve({ ...asked, service_tier: 'auto' })).code).toBe(
    'idempotency_key_reused',
  );
  const { reservation_id } = held.body;
  const usage = { ...used, web_searches: 2, service_tier: 'priority' };
  const settled = await settle({ reservation_id, outcome: 'completed', usage });
  expect(settled.body.actual_cost).toBe(0.0224);
});

test('a tier or a region that nobody prices is 422 in words', async () => {
  for (const param of ['service_tier', 'region']) {
    const answer = await reserve({ [param]: 'surprise' });
    expect(refusal(answer)).toEqual({ status: 422, code: 'invalid_field', param });
    expect(answer.body.error.message).toMatch(/There is no price for this/);
  }
  for (const service_tier of ['auto', 'default', null])
    expect((await reserve({ service_tier })).status).toBe(200);
});

test('choices without a cap are held for each, as the cap of all that the version before sends', async () => {
  const held = await reserve({ max_completion_tokens: null, choices: 2 });
  const hold = { max_completion_tokens: 8_192, estimated_cost: 0.017384 };
  expect(held.body).toMatchObject(hold);
  expect((await reserve({ max_completion_tokens: 8_192 })).body).toMatchObject(hold);
  const capped = await reserve({ max_completion_tokens: 8_192, choices: 2 });
  expect(capped.body).toMatchObject(hold);
  expect((await reserve({ max_completion_tokens: null, choices: null })).body).toMatchObject({
    max_completion_tokens: 4_096,
    estimated_cost: 0.009192,
  });
});

test.each([0, 129, 1.5, '2', true])('choices of %j are refused by name', async (choices) => {
  const answer = await reserve({ max_completion_tokens: null, choices });
  expect(refusal(answer)).toMatchObject({ status: 422, param: 'choices' });
});

test.each([
  [{ image_input_tokens: 1_001 }, 'usage.prompt_tokens'],
  [{ video_input_tokens: 600, cached_tokens: 600 }, 'usage.prompt_tokens'],
  [{ image_output_tokens: 60, reasoning_tokens: 60 }, 'usage.completion_tokens'],
  [{ video_output_tokens: 101 }, 'usage.completion_tokens'],
  [{ web_searches: -1 }, 'usage.web_searches'],
  [{ containers: 0.5 }, 'usage.containers'],
  [{ pages: '1' }, 'usage.pages'],
  [{ service_tier: 1 }, 'usage.service_tier'],
  [{ region: '' }, 'usage.region'],
])('usage with %j is refused by name', async (more, param) => {
  const { reservation_id } = (await reserve({})).body;
  const body = { reservation_id, outcome: 'completed', usage: { ...used, ...more } };
  expect(refusal(await settle(body))).toMatchObject({ status: 422, param });
  expect((await settle({ ...body, usage: used })).status).toBe(200);
});
