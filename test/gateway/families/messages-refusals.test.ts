import Anthropic, {
  APIError,
  PaymentRequiredError,
  PermissionDeniedError,
} from '@anthropic-ai/sdk';
import { countTokens } from 'gpt-tokenizer/encoding/o200k_base';
import { many } from '../../../domain/sql';
import {
  arrivals,
  forgetArrivals,
  gatewayKey,
  lastCharge,
  message,
  openWorld,
  type World,
} from '../../support/gateway';
import { balance, credit, makeOrg } from '../../support/ledger';

let world: World;
let client: Anthropic;
const model = 'claude-sonnet-4-5';

// The client tells when models reach their end.
beforeEach(() => void jest.spyOn(console, 'warn').mockImplementation(() => undefined));

beforeAll(async () => {
  world = await openWorld();
  client = new Anthropic({ baseURL: world.url, apiKey: world.key });
});

afterAll(() => world.close());

const last = () => lastCharge(world, world.org.org_id);
const user = (content: string) => [{ role: 'user' as const, content }];

function counting(apiKey: string) {
  const sent = { requests: 0 };
  const counted: typeof fetch = (input, init) => {
    sent.requests += 1;
    return fetch(input, init);
  };
  return { sent, client: new Anthropic({ baseURL: world.url, apiKey, fetch: counted }) };
}

async function errorOf(call: PromiseLike<unknown>): Promise<APIError> {
  const error = await call.then(
    () => undefined,
    (reason) => reason,
  );
  expect(error).toBeInstanceOf(APIError);
  return error;
}

test.each<[string, number, object, string]>([
  ['response_format', 422, { response_format: { type: 'json_object' } }, 'response_format'],
  ['a speed at another price', 422, { speed: 'fast' }, 'speed'],
  ['models to fall back on', 422, { fallbacks: [{ model: 'claude-opus-4-8' }] }, 'fallbacks'],
  ['a tool that asks a model', 422, { tools: [{ type: 'advisor_1', model: 'x' }] }, 'tools'],
  ['no cap', 422, { max_tokens: undefined }, 'max_tokens'],
  ['a cap below zero', 422, { max_tokens: -1 }, 'max_tokens'],
  ['no messages', 422, { messages: undefined }, 'messages'],
  ['no model', 422, { model: undefined }, 'model'],
  ['an unknown model', 404, { model: 'none' }, 'model'],
  ['a model of another wire', 404, { model: 'gpt-4o' }, 'model'],
  ['an unpriced model', 422, { model: 'unpriced-claude' }, 'model'],
])('bad input: %s is refused with %i, nothing goes upstream', async (_, status, more, param) => {
  await forgetArrivals(world.models_url);
  const error = await errorOf(client.messages.create(message('Hello', more) as never));
  expect(error).toMatchObject({ status, requestID: expect.stringMatching(/^req_/) });
  expect(error.error).toMatchObject({
    type: 'error',
    error: { type: expect.any(String), message: expect.any(String), param },
  });
  expect(await arrivals(world.models_url)).toEqual([]);
});

test('a request that no wallet covers is refused once, as 402 with its ticket; nothing goes upstream', async () => {
  const poor = await makeOrg(world.api.db);
  const broke = counting(await gatewayKey(world.api, poor.org_id));
  await forgetArrivals(world.models_url);
  for (const stream of [false, true]) {
    const body = { model, max_tokens: 64, messages: user('Hello'), stream };
    const error = await errorOf(broke.client.messages.create(body));
    expect(error).toBeInstanceOf(PaymentRequiredError);
    const ticket = { id: expect.stringMatching(/^ticket_/), shortfall: expect.any(Number) };
    expect(error.error).toMatchObject({
      type: 'error',
      cost_ticket: ticket,
      error: { type: 'billing_error', code: 'insufficient_balance', cost_ticket: ticket },
    });
  }
  expect(broke.sent.requests).toBe(2);
  expect(await arrivals(world.models_url)).toEqual([]);
});

test('a model that the key may not use is refused once, as 403', async () => {
  const narrow = counting(
    await gatewayKey(world.api, world.org.org_id, { allowed_models: ['gpt-4o'] }),
  );
  const body = { model, max_tokens: 64, messages: user('Hello') };
  const error = await errorOf(narrow.client.messages.create(body));
  expect(error).toBeInstanceOf(PermissionDeniedError);
  expect(error.error).toMatchObject({ error: { code: 'model_not_allowed', param: 'model' } });
  expect(narrow.sent.requests).toBe(1);
});

test('a ticket that has expired is told once, as 410', async () => {
  const poor = await makeOrg(world.api.db);
  const broke = counting(await gatewayKey(world.api, poor.org_id));
  const body = { model, max_tokens: 64, messages: user('Hello') };
  const refused = await errorOf(broke.client.messages.create(body));
  const { cost_ticket } = refused.error as { cost_ticket: { id: string } };
  await many(
    world.api.db,
    `update cost_tickets set expires_at = clock_timestamp() - interval '1 second' where id = :id`,
    cost_ticket,
  );
  const headers = { 'x-svc-cost-ticket': cost_ticket.id };
  const error = await errorOf(broke.client.messages.create(body, { headers }));
  expect(error).toMatchObject({ status: 410, error: { error: { code: 'ticket_expired' } } });
  expect(broke.sent.requests).toBe(2);
});

test.each([400, 429, 529])(
  'an upstream %i reaches the client as it came, each hold is released',
  async (status) => {
    const org = await makeOrg(world.api.db);
    await credit(world.api.db, org.org_id, org.org_wallet, 1_000_000_000n);
    const failing = counting(await gatewayKey(world.api, org.org_id));
    const body = { model, max_tokens: 64, messages: user(`[[fault:error status=${status}]]`) };
    const error = await errorOf(failing.client.messages.create(body, { maxRetries: 0 }));
    expect(error).toMatchObject({ status, error: { type: 'error' } });
    expect(await lastCharge(world, org.org_id)).toMatchObject({ status: 'released' });
    expect((await balance(world.api.db, org.org_wallet)).balance_nanos).toBe(1_000_000_000n);
  },
);

test.each(['cut after=8', 'end after=8', 'error-frame after=8'])(
  "a stream that breaks (%s) throws in the client's loop; its input is charged exactly, its output by count",
  async (fault) => {
    const content = `Hello [[fault:${fault}]] [[fault:chunks count=200]]`;
    const body = { model, max_tokens: 1_000, messages: user(content), stream: true as const };
    const seen: string[] = [];
    const reading = (async () => {
      for await (const { type } of await client.messages.create(body)) seen.push(type);
    })();
    const error = await errorOf(reading);
    expect(error.error).toMatchObject({ type: 'error', error: { type: 'api_error' } });
    expect(seen.filter((type) => type === 'content_block_delta')).toHaveLength(5);
    const charge = await last();
    expect(charge).toMatchObject({ status: 'settled', usage_source: 'estimated' });
    // Five words, counted and taken for a fifth more.
    expect(charge.usage.completion_tokens).toBe(6);
    expect(charge.usage.prompt_tokens).toBe(3 + countTokens(content));
  },
);
