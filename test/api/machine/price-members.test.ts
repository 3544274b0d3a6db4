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
