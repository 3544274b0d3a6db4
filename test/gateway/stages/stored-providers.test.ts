import { blankPrice } from '../../../domain/ledger/pricing';
import { many } from '../../../domain/sql';
import { lastCharge, openWorld, post, type World } from '../../support/gateway';
import { makePrice } from '../../support/ledger';
import { until } from '../../support/until';
import { openScripted, type Scripted } from '../../support/upstream';

// Stored things with two providers that serve one model.

let world: World;
let second: Scripted;
let third: Scripted;

beforeAll(async () => {
  world = await openWorld();
  second = await openScripted();
  third = await openScripted();
  const price = { ...blankPrice, tiers: null, input_per_1m: 1, output_per_1m: 1 };
  await makePrice(world.api.db, { ...price, provider: 'second', model: 'shared' });
  await makePrice(world.api.db, { ...price, provider: 'third', model: 'shared' });
});

afterAll(async () => {
  await second.close();
  await third.close();
  await world.close();
});

async function ask(more: object, url: string) {
  const body = { model: 'shared', input: 'Hello', max_output_tokens: 64, ...more };
  const { status, text } = await post(`${url}/v1/responses`, world.key, body);
  return { status, body: JSON.parse(text) };
}

async function untilStored(id: string): Promise<void> {
  const sql = 'select id from stored_ids where id = :id';
  await until(async () => (await many(world.api.db, sql, { id })).length > 0);
}

const json = (id: string) => [
  JSON.stringify({
    id,
    object: 'response',
    status: 'completed',
    output: [{ type: 'message', id: `item_${id}`, content: [{ type: 'output_text', text: 'Hi' }] }],
    usage: { input_tokens: 9, output_tokens: 1, total_tokens: 10 },
  }),
];

async function openTwo(settings: object = {}): Promise<string> {
  const target = (id: string, url: string) => ({
    id,
    provider: id,
    shape: 'openai',
    base_url: url,
    api_key_env: 'TEST_MODELS_KEY',
    models: ['shared'],
  });
  const targets = [target('second', second.url), target('third', third.url)];
  return (await world.openGateway({ settings: { providers: { targets }, ...settings } })).url;
}

test('only the provider that keeps it serves a request, whichever made it', async () => {
  const url = await openTwo();
  const later = await openTwo();
  second.play(['{"error":{"message":"down"}}'], 'application/json', 503);
  third.play(json('resp_third'), 'application/json');
  expect((await ask({}, url)).body.id).toBe('resp_third');
  await untilStored('resp_third');
  for (const at of [url, later]) {
    second.play(json('resp_second'), 'application/json');
    for (const _ of [1, 2, 3, 4]) {
      const { status } = await ask({ previous_response_id: 'resp_third' }, at);
      expect(status).toBe(200);
    }
    expect(second.arrived).toEqual([]);
    // It fails rather than go to another provider.
    third.play(['{"error":{"message":"down"}}'], 'application/json', 503);
    expect((await ask({ previous_response_id: 'resp_third' }, at)).status).toBe(503);
    expect(second.arrived).toEqual([]);
    third.play(json('resp_third'), 'application/json');
  }
});

test('ids of two providers have no target that may serve them', async () => {
  const url = await openTwo();
  const ids: string[] = [];
  for (const [up, down, id] of [
    [second, third, 'resp_a'],
    [third, second, 'resp_b'],
  ] as const) {
    down.play(['{"error":{"message":"down"}}'], 'application/json', 503);
    up.play(json(id), 'application/json');
    ids.push((await ask({}, url)).body.id);
    await untilStored(id);
  }
  second.play(json('x'), 'application/json');
  third.play(json('x'), 'application/json');
  const input = [{ type: 'item_reference', id: 'item_resp_b' }];
  for (const at of [url, await openTwo()]) {
    const both = await ask({ previous_response_id: 'resp_a', input }, at);
    expect(both.status).toBe(404);
    expect([...second.arrived, ...third.arrived]).toEqual([]);
  }
  expect(ids).toEqual(['resp_a', 'resp_b']);
});

test('where ids pass, nothing is asked, and an echo of a request binds nothing', async () => {
  const url = await openTwo({ stored_ids: 'pass' });
  const echo = JSON.parse(json('resp_pass')[0] as string);
  for (const up of [second, third]) {
    up.play(
      [JSON.stringify({ ...echo, conversation: { id: 'conv_foreign' } })],
      'application/json',
    );
  }
  const named = {
    model: 'shared',
    previous_response_id: 'resp_foreign',
    conversation: 'conv_foreign',
  };
  expect((await ask(named, url)).status).toBe(200);
  await untilStored('resp_pass');
  const sql = `select id from stored_ids where id like '%foreign'`;
  expect(await many(world.api.db, sql)).toEqual([]);
  // What was made meanwhile is known once they are bound.
  const bound = await openTwo();
  expect((await ask({ previous_response_id: 'resp_pass' }, bound)).status).toBe(200);
});

test.each([
  ['cached_content', { extra_body: { google: { cached_content: 'cachedContents/c' } } }],
  ['cachedContent', { extra_body: { google: { cachedContent: 'cachedContents/c' } } }],
  ['cachedContent', { cachedContent: 'cachedContents/c' }],
  [
    'url',
    {
      messages: [
        { role: 'user', content: [{ type: 'image_url', image_url: { url: 'gs://bucket/a.png' } }] },
      ],
    },
  ],
])(
  "a thing that is nobody's here (%s) reaches no provider, unless ids pass",
  async (param, more) => {
    const answer = { choices: [{ index: 0, message: { content: 'Hi' }, finish_reason: 'stop' }] };
    const usage = { prompt_tokens: 500_000, completion_tokens: 2, total_tokens: 500_002 };
    second.play([JSON.stringify({ ...answer, usage })], 'application/json');
    third.play([], 'application/json');
    const body = { model: 'shared', messages: [{ role: 'user', content: 'Hi' }], max_tokens: 9 };
    const send = async (url: string) => {
      const asked = await post(`${url}/v1/chat/completions`, world.key, { ...body, ...more });
      return { status: asked.status, error: JSON.parse(asked.text).error };
    };
    const refused = await send(await openTwo());
    expect(refused).toMatchObject({ status: 404, error: { code: 'stored_id_unknown', param } });
    expect([...second.arrived, ...third.arrived]).toEqual([]);
    // What it holds is no input that the request shows, and is charged.
    expect((await send(await openTwo({ stored_ids: 'pass' }))).status).toBe(200);
    const { actual_cost_nanos, held_nanos } = await lastCharge(world, world.org.org_id);
    expect(actual_cost_nanos).toBe(500_002n * 1_000n);
    expect(held_nanos).toBeGreaterThan(1_000n * 1_000n);
  },
);
