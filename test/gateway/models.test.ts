import OpenAI from 'openai';
import * as pricing from '../../domain/ledger/pricing';
import { many } from '../../domain/sql';
import { gatewayKey, openWorld, type TestGateway, type World } from '../support/gateway';
import { makeOrg, makeOwnKey, makePrice } from '../support/ledger';
import { until } from '../support/until';

let world: World;
let gateway: TestGateway;
let key: string;
let settings: { providers: { targets: object[] }; model_groups: object };

beforeAll(async () => {
  world = await openWorld();
  await many(world.api.db, `delete from model_prices returning id`);
  const price = { ...pricing.blankPrice, provider: 'cheap', model: 'm', input_per_1m: 0.3 };
  const cheap = await pricing.create(world.api.db, {
    ...{ ...price, output_per_1m: 1.2, per_request: 0.001 },
  });
  await pricing.create(world.api.db, {
    ...{ ...price, provider: 'dear', model: 'm-2027', input_per_1m: 3, output_per_1m: 12 },
    ...{ cached_input_per_1m: 0.3, per_web_search: 0.01, max_output_tokens: 8_192 },
  });
  const metadata = {
    ...{ context_length: 200_000, input_modalities: ['text', 'image'], successor: 'm-2028' },
    ...{ output_modalities: ['text'], supported_parameters: ['tools'], max_output_tokens: 16_384 },
    deprecation_date: '2027-06-30',
  };
  await many(
    world.api.db,
    `update model_prices set metadata = :metadata where provider = 'dear' returning id`,
    { metadata: JSON.stringify(metadata) },
  );
  expect(cheap.source).toBe('hand');
  const target = {
    shape: 'openai' as const,
    base_url: `${world.models_url}/v1`,
    api_key_env: 'TEST_MODELS_KEY',
  };
  key = await gatewayKey(world.api, world.org.org_id);
  settings = {
    providers: {
      targets: [
        { ...target, id: 'a', provider: 'cheap', models: ['m', 'unpriced'] },
        { ...target, id: 'b', provider: 'dear', models: [{ name: 'm', price_as: 'm-2027' }] },
      ],
    },
    model_groups: [{ name: 'best', models: ['m', 'unpriced'] }],
  };
  gateway = await world.openGateway({ settings });
});

afterAll(() => world.close());

const known = {
  context_length: 200_000,
  top_provider: { max_completion_tokens: 8_192 },
  architecture: { input_modalities: ['text', 'image'], output_modalities: ['text'] },
  supported_parameters: ['tools'],
  pricing: {
    ...{ prompt: '0.000003', completion: '0.000012', input_cache_read: '0.0000003' },
    web_search: '0.01',
  },
  svc: { deprecation_date: '2027-06-30', successor: 'm-2028' },
};

async function listed(headers: Record<string, string> = {}, url = gateway.url) {
  const answer = await fetch(`${url}/v1/models`, {
    headers: { authorization: `Bearer ${key}`, ...headers },
  });
  return ((await answer.json()) as { data: Record<string, unknown>[] }).data;
}

test('a model says what its dearest price is and what is known of it; one without a price neither', async () => {
  const plain = { object: 'model', created: expect.any(Number) };
  expect(await listed()).toEqual([
    { id: 'm', ...plain, owned_by: 'cheap', ...known },
    { id: 'unpriced', ...plain, owned_by: 'cheap' },
    { id: 'best', ...plain, owned_by: 'svc', ...known },
  ]);
});

test('a client whose base is unified chat lists the models that it may call there', async () => {
  const client = new OpenAI({ apiKey: key, baseURL: `${gateway.url}/v1/unified` });
  const ids: string[] = [];
  for await (const { id } of client.models.list()) ids.push(id);
  expect(ids).toEqual(['m', 'unpriced', 'best']);
  expect(await client.models.retrieve('m')).toMatchObject({ id: 'm', owned_by: 'cheap' });
  await expect(client.models.retrieve('n')).rejects.toMatchObject({ code: 'model_not_found' });
});

test("Anthropic's clients are told under its own names; OpenAI's SDK reads on", async () => {
  const { context_length, top_provider, ...rest } = known;
  const [first] = await listed({ 'anthropic-version': '2023-06-01' });
  expect(first).toEqual({
    ...{ type: 'model', id: 'm', display_name: 'm', created_at: expect.any(String) },
    ...{ max_input_tokens: context_length, max_tokens: top_provider.max_completion_tokens },
    ...rest,
  });
  const client = new OpenAI({ apiKey: key, baseURL: `${gateway.url}/v1` });
  const ids: string[] = [];
  for await (const { id } of client.models.list()) ids.push(id);
  expect(ids).toEqual(['m', 'unpriced', 'best']);
});

test.each<[string, object, object]>([
  ['by the minute', { per_minute: 0.006 }, { minute: '0.006' }],
  ['by the letter', { per_1m_characters: 15 }, { character: '0.000015' }],
  [
    'by sound',
    { input_per_1m: 0.6, audio_output_per_1m: 12 },
    { prompt: '0.0000006', audio_output: '0.000012' },
  ],
  ['nothing', { free: true }, { prompt: '0', completion: '0' }],
])('what is charged %s tells no text of 0 beside it', async (name, more, told) => {
  const provider = name.replaceAll(' ', '-');
  const tiers = null;
  await makePrice(world.api.db, { ...pricing.blankPrice, tiers, provider, model: 'm', ...more });
  const [target] = settings.providers.targets as [object];
  const targets = [{ ...target, id: 'x', provider, models: ['m'] }];
  const { url } = await world.openGateway({ settings: { providers: { targets } } });
  expect((await listed({}, url))[0]).toMatchObject({ id: 'm', pricing: told });
  expect(Object.keys((await listed({}, url))[0]?.pricing ?? {})).toEqual(Object.keys(told));
});

test('health names what is served and has no price', async () => {
  let told: { unpriced_models?: string[] } = {};
  // A probe waits no longer than a quarter of a second for what it says beside.
  await until(async () => {
    told = (await (await fetch(`${gateway.url}/svc/health`)).json()) as typeof told;
    return told.unpriced_models !== undefined;
  });
  expect(told).toMatchObject({ status: 'ok', unpriced_models: ['cheap/unpriced'] });
});

test('a price is what the organization of the caller pays, whoever says who calls', async () => {
  const { org_id } = await makeOrg(world.api.db, { price_factor: 0.76 });
  const discount = {
    ...{ prompt: '0.00000228', completion: '0.00000912', input_cache_read: '0.000000228' },
    web_search: '0.0076',
  };
  const bearer = `Bearer ${await gatewayKey(world.api, org_id)}`;
  const [by_key] = await listed({ authorization: bearer });
  expect(by_key).toMatchObject({ id: 'm', pricing: discount });
  const shown = await fetch(`${gateway.url}/v1/models/m`, { headers: { authorization: bearer } });
  expect(await shown.json()).toMatchObject({ pricing: discount });
  const identity = { mode: 'header_soft', org_id };
  const soft = await world.openGateway({ settings: { ...settings, identity } });
  const [by_header] = await listed({ 'x-user-id': 'ada' }, soft.url);
  expect(by_header).toMatchObject({ id: 'm', pricing: discount });
  expect((await listed())[0]).toMatchObject({ pricing: known.pricing });
  // What an organization pays is not known by itself: without an answer no price is shown.
  const stray = { mode: 'header_soft', org_id: 'org_unknown' };
  const unknown = await world.openGateway({ settings: { ...settings, identity: stray } });
  const [unpriced] = await listed({ 'x-user-id': 'ada' }, unknown.url);
  expect(unpriced).toMatchObject({ id: 'm', context_length: 200_000 });
  expect(unpriced).not.toHaveProperty('pricing');
});

test.each<[string, object[], object]>([
  [
    'its own keys alone serve',
    [
      { provider: 'cheap', price_factor: 20 },
      { provider: 'dear', price_factor: 1.25 },
    ],
    { prompt: '0.000006', completion: '0.000024', request: '0.001' },
  ],
  [
    'its own key alone serves the dearest',
    [{ provider: 'dear', price_factor: 1.25 }],
    { prompt: '0.00000375', completion: '0.000015', web_search: '0.0125' },
  ],
  [
    'the key of the platform may follow, which is dearer',
    [{ provider: 'dear', price_factor: 0.1, own_keys: 'first' }],
    { prompt: '0.00000228', completion: '0.00000912' },
  ],
  [
    'its own key makes the other one the dearest',
    [{ provider: 'dear', price_factor: 0 }],
    { prompt: '0.000000228', completion: '0.000000912', request: '0.00076' },
  ],
])('a price is what may be charged at most if %s', async (_, keys, pricing) => {
  const { org_id } = await makeOrg(world.api.db, { price_factor: 0.76 });
  for (const own of keys) await makeOwnKey(world.api.db, org_id, { ...own });
  await makeOwnKey(world.api.db, org_id, {
    ...{ provider: 'other', price_factor: 9, revoked_at: new Date() },
  });
  const [shown] = await listed({ authorization: `Bearer ${await gatewayKey(world.api, org_id)}` });
  expect(shown).toMatchObject({ id: 'm', pricing });
});
