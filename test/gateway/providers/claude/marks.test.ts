import { blankPrice } from '../../../../domain/ledger/pricing';
import { message, post } from '../../../support/gateway';
import { makePrice } from '../../../support/ledger';
import { ask, newCaller, openSold, targets, url, visits, world } from '../sold';

// What Claude's maker takes of a whole request, and its other sellers of a block or not at all.

const sellers = ['aws-claude', 'gcp-claude'];
const mark = { type: 'ephemeral', ttl: '1h', scope: 'global' };
const kept = { type: 'ephemeral', ttl: '1h' };
const said = (text: string, more: object = {}) => ({ type: 'text', text, ...more });

test.each<[string, object, object]>([
  [
    'a text',
    { messages: [{ role: 'user', content: 'Hello' }] },
    { messages: [{ role: 'user', content: [said('Hello', { cache_control: kept })] }] },
  ],
  [
    'the last block',
    { messages: [{ role: 'user', content: [said('One'), said('Two')] }] },
    { messages: [{ content: [said('One'), said('Two', { cache_control: kept })] }] },
  ],
  [
    'a block with a mark of its own',
    {
      messages: [
        { role: 'user', content: [said('One', { cache_control: { type: 'ephemeral' } })] },
      ],
    },
    { messages: [{ content: [said('One', { cache_control: { type: 'ephemeral' } })] }] },
  ],
  [
    'the last block that can carry it',
    {
      messages: [
        { role: 'user', content: 'One' },
        { role: 'assistant', content: [{ type: 'thinking', thinking: 'Hm', signature: 'x' }] },
        { role: 'user', content: [said('Two'), said('')] },
      ],
    },
    {
      messages: [
        { content: 'One' },
        { content: [{ type: 'thinking' }] },
        { content: [said('Two', { cache_control: kept }), said('')] },
      ],
    },
  ],
])('a cache that the whole request asks for holds up to %s', async (_, body, expected) => {
  for (const model of sellers) {
    const { status } = await ask(model, '', { body: { ...body, cache_control: mark } });
    expect([model, status]).toEqual([model, 200]);
    expect(visits.at(-1)?.body).toMatchObject(expected);
    expect(visits.at(-1)?.body).not.toHaveProperty('cache_control');
    expect(String(visits.at(-1)?.bytes)).not.toContain('scope');
  }
  // Its maker's wire has it as it came.
  await ask('foundry', '', { body: { ...body, cache_control: mark } });
  expect(visits.at(-1)?.body).toMatchObject({ cache_control: mark, ...body });
});

const count = async (body: object, headers: Record<string, string> = {}) => {
  const { max_tokens: _, ...asked } = message('Hello [[fault:count tokens=7]]', body);
  visits.length = 0;
  return post(`${url}/v1/messages/count_tokens`, await newCaller(), asked, headers);
};

test('Vertex counts tokens by a model of its own, without the beta of a search', async () => {
  const cached = { cache_control: mark, inference_geo: 'global' };
  const headers = { 'anthropic-beta': 'web-search-2025-03-05,context-1m-2025-08-07' };
  const { status, text } = await count({ model: 'gcp-claude', ...cached }, headers);
  expect([status, JSON.parse(text)]).toEqual([200, { input_tokens: 7 }]);
  const asked = visits.at(-1);
  expect(asked?.path).toBe(
    '/v1/projects/acme-1/locations/global/publishers/anthropic/models/count-tokens:rawPredict',
  );
  expect(asked?.body).toMatchObject({ model: 'claude-opus-5-5@20260101' });
  expect(asked?.headers['anthropic-beta']).toBe('context-1m-2025-08-07');
  // What cannot be counted there is estimated here.
  const tools = [{ type: 'web_search_20250305', name: 'web_search' }];
  const searching = await count({ model: 'gcp-claude', tools });
  expect([searching.status, visits]).toEqual([200, []]);
  expect(JSON.parse(searching.text).input_tokens).toBeGreaterThan(7);
});

test('a mark that is null is none', async () => {
  for (const model of sellers) {
    const { status } = await ask(model, 'Hello', { body: { cache_control: null } });
    expect([model, status]).toEqual([model, 200]);
    expect(String(visits.at(-1)?.bytes)).not.toContain('cache_control');
  }
});

test('where a request is answered is said to who knows the word, or is 422', async () => {
  for (const model of sellers) {
    const silent = await ask(model, 'Hello', { body: { inference_geo: 'global' } });
    expect([model, silent.status]).toEqual([model, 200]);
    expect(visits.at(-1)?.body).not.toHaveProperty('inference_geo');
    const { status, text } = await ask(model, 'Hello', { body: { inference_geo: 'us' } });
    expect([status, JSON.parse(text).error.param]).toEqual([422, 'inference_geo']);
    expect(visits).toEqual([]);
  }
});

test('of two sellers the one is asked that knows where', async () => {
  const price = { ...blankPrice, tiers: null, model: 'placed', input_per_1m: 3, output_per_1m: 15 };
  await makePrice(world.api.db, { ...price, provider: 'vertex' });
  await makePrice(world.api.db, { ...price, provider: 'azure', regions: { us: 1.1 } });
  const rows = targets();
  const named = (id: string, weight: number) => {
    const row = rows.find((one) => one.id === id) as { models: object[] };
    return { ...row, weight, models: [{ ...row.models[0], name: 'a-claude', price_as: 'placed' }] };
  };
  const at = await openSold({}, [named('gcp-claude', 1_000_000), named('foundry', 1)]);
  await ask('a-claude', 'Hello', { at });
  expect(visits.at(-1)?.url).toContain('/vertex/');
  const { status } = await ask('a-claude', 'Hello', { at, body: { inference_geo: 'us' } });
  expect([status, visits.at(-1)?.url]).toEqual([200, expect.stringContaining('/azure/')]);
});
