import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { runPrices } from '../../api/admin-prices';
import * as answers from '../../api/answers/prices';
import { type Db, many } from '../../domain/sql';
import { type CallApi, refusal, startApi } from '../support/api';
import { platformKey } from '../support/keys';

let db: Db;
let call: CallApi;
let close: () => Promise<void>;
let key: string;
let dir: string;

beforeAll(async () => {
  ({ db, call, close } = await startApi());
  key = await platformKey(db);
});

beforeEach(async () => {
  for (const table of ['model_prices', 'price_imports', 'gateway_configs'])
    await many(db, `delete from ${table}`);
  dir = mkdtempSync(path.join(os.tmpdir(), 'prices-'));
});

afterAll(() => close());

const post = (to: string, body: object) => call('post', to, { key, body });
const get = (from: string) => call('get', from, { key });

async function terminal(...args: string[]): Promise<{ code: number; text: string }> {
  const lines: string[] = [];
  const code = await runPrices(db, args, (line) => lines.push(line));
  return { code, text: lines.join('\n') };
}

function fileOf(name: string, content: unknown): string {
  const file = path.join(dir, name);
  writeFileSync(file, typeof content === 'string' ? content : JSON.stringify(content));
  return file;
}

async function priceOf(provider: string, model: string) {
  const { body } = await call('get', '/v1/model-pricing');
  return body.models.find(
    (one: { provider: string; model: string }) => one.provider === provider && one.model === model,
  );
}

// Figures without a place in a price (cached sound, pictures by the piece), amounts by the page,
// free or unknown ones, and those that leave out what is charged (speech, sound, searches, writes
// for an hour): all else is priced by one yes.
const asks_of: Record<string, string> = {
  openai:
    'gpt-4o-audio-preview gpt-4o-mini-audio-preview gpt-4o-mini-tts gpt-4o-search-preview gpt-image-1 gpt-image-1-mini gpt-image-1.5 gpt-image-2 gpt-realtime gpt-realtime-2 gpt-realtime-mini moderation o3-deep-research o4-mini-deep-research gpt-4o-search-preview-2025-03-11 gpt-image-1.5-2025-12-16 gpt-image-2-2026-04-21 gpt-realtime-2025-08-28 gpt-realtime-1.5 gpt-realtime-2.1 gpt-realtime-2.1-mini gpt-realtime-mini-2025-12-15 gpt-realtime-mini-2025-10-06 o3-deep-research-2025-06-26 o4-mini-deep-research-2025-06-26',
  gemini:
    'claude-3-5-haiku claude-3-5-sonnet claude-3-7-sonnet claude-3-haiku claude-3-opus claude-4-opus claude-4-sonnet claude-fable-5 claude-fable-5-1 claude-opus-4-6 claude-opus-4-7 claude-opus-4-8 claude-opus-5 claude-opus-5-5 claude-sonnet-4-5 claude-sonnet-4-6 gemini-2.0-flash gemini-2.5-flash gemini-2.5-flash-lite gemini-3-flash-preview gemini-3.1-flash-lite gemini-3.6-flash gemini-3.7-flash gemini-3.8-flash gemma-3 gemma-3n gemma-4-26b-a4b-it gemma-4-31b-it claude-opus-4 claude-sonnet-4 anthropic/claude-sonnet-4 gemini-2.5-flash-latest gemini-2.5-flash-preview-09-2025',
  mistral:
    'devstral-small:free mistral-nemo:free mistral-ocr-2505 mistral-ocr-2512 mistral-ocr-4-0 mistral-ocr-4-1 mistral-ocr-latest mistral-small-24b-instruct-2501:free mistral-ocr-2505-completion mistral-ocr-2512-completion mistral-ocr-4-0-completion mistral-ocr-4 mistral-ocr-4-completion mistral-ocr-4-1-completion mistral-ocr-latest-completion',
};
const asks = Object.entries(asks_of).flatMap(([vendor, models]) =>
  models.split(' ').map((model) => `${vendor}/${model}`),
);

test('a fresh installation prices four vendors with a plan and one yes, each with its source', async () => {
  const proposed = await get('/v1/admin/price-plan?providers=openai,anthropic,gemini,mistral');
  expect(proposed.status).toBe(200);
  const { plan, diff } = proposed.body;
  const groups = new Set(diff.rows.map((row: { group: string }) => row.group));
  expect(groups).toEqual(new Set(['new', 'asks']));
  const asking = diff.rows.filter((row: { group: string }) => row.group === 'asks');
  expect(
    asking.map(({ provider, model }: Record<string, string>) => `${provider}/${model}`),
  ).toEqual(asks);
  const made = await post('/v1/admin/price-imports', { plan, skip_asking: true });
  expect(made.status).toBe(201);
  expect(made.body).toMatchObject({ actor: expect.any(String), undone_at: null });
  expect(made.body.prices).toBeGreaterThan(150);
  expect(await priceOf('anthropic', 'claude-opus-4-1')).toMatchObject({
    ...{ input_per_1m: 15, output_per_1m: 75, cached_input_per_1m: 1.5, cache_write_1h_per_1m: 30 },
    ...{ per_web_search: 0.01, source: 'import', import_id: made.body.id },
    catalog: 'genai-prices 0.1.8 of 2026-09-23',
    metadata: { context_length: 200_000 },
  });
  expect(await priceOf('gemini', 'gemini-2.5-pro')).toMatchObject({
    ...{ input_per_1m: 1.25, cached_input_per_1m: 0.125 },
    tiers: [
      {
        ...{ above_prompt_tokens: 200_000, input_per_1m: 2.5, output_per_1m: 15 },
        cached_input_per_1m: 0.25,
      },
    ],
  });
  const listed = await get('/v1/admin/price-imports');
  expect(listed.body.imports).toEqual([made.body]);
  const priced = (await call('get', '/v1/model-pricing')).body.models.length;
  const undone = await post(`/v1/admin/price-imports/${made.body.id}/undo`, {});
  expect(undone.body.removed).toHaveLength(priced);
  expect((await call('get', '/v1/model-pricing')).body.models).toEqual([]);
});

test('a plan that others have overtaken is 409, and one that asks says what', async () => {
  const { plan } = (await get('/v1/admin/price-plan?providers=deepseek')).body;
  const asks = await post('/v1/admin/price-imports', { plan });
  expect(refusal(asks)).toMatchObject({ status: 409, code: 'import_asks' });
  expect(asks.body.error.asks).toContain('deepseek/deepseek-chat');
  const model = plan.rows[0].model;
  await post('/v1/admin/model-pricing', { provider: 'deepseek', model, input_per_1m: 1 });
  const late = await post('/v1/admin/price-imports', { plan, skip_asking: true });
  expect(late.status).toBe(409);
  expect(late.body.error).toMatchObject({ code: 'prices_changed', changed: [`deepseek/${model}`] });
});

test('the plan of the served models follows the configuration of the gateways', async () => {
  const nothing = await get('/v1/admin/price-plan');
  expect(nothing.body.plan.rows).toEqual([]);
  const target = { id: 'a', provider: 'openai', shape: 'openai', models: ['gpt-4o', 'x'] };
  const config = { providers: { targets: [{ ...target, base_url: 'https://models.example/v1' }] } };
  await call('put', '/v1/admin/gateway-config', { key, body: { config } });
  const { plan } = (await get('/v1/admin/price-plan')).body;
  expect(plan.rows.map(({ model }: { model: string }) => model)).toEqual(['gpt-4o']);
  expect(plan.missing).toMatchObject([{ provider: 'openai', model: 'x' }]);
  const checked = await get('/v1/admin/price-check');
  expect(checked.body).toMatchObject({ unpriced: ['openai/gpt-4o', 'openai/x'], faults: 2 });
});

test.each([
  ['providers=nobody', 'providers'],
  ['providers=', 'providers'],
])('a plan of %s is refused with what there is', async (query, param) => {
  const answer = await get(`/v1/admin/price-plan?${query}`);
  expect(refusal(answer)).toEqual({ status: 422, code: 'invalid_field', param });
});

test.each<[string, (plan: Record<string, unknown>) => unknown, string]>([
  ['another format', (plan) => ({ ...plan, format: 'x' }), 'plan.format'],
  ['an unknown member', (plan) => ({ ...plan, more: 1 }), 'plan.more'],
  ['a negative amount', (plan) => withAmount(plan, '-1'), 'plan.rows.0.price.amounts.input_per_1m'],
  [
    'an amount with an exponent',
    (plan) => withAmount(plan, '1e9'),
    'plan.rows.0.price.amounts.input_per_1m',
  ],
  [
    'a number for an amount',
    (plan) => withAmount(plan, 3),
    'plan.rows.0.price.amounts.input_per_1m',
  ],
])('a plan with %s is refused by its path', async (_, changed, param) => {
  const { plan } = (await get('/v1/admin/price-plan?providers=groq')).body;
  const answer = await post('/v1/admin/price-imports', { plan: changed(plan) });
  expect(answer.status).toBe(422);
  expect(answer.body.error.param).toBe(param);
});

function withAmount(plan: Record<string, unknown>, input_per_1m: unknown) {
  const [first] = plan.rows as Record<string, unknown>[];
  const price = { amounts: { input_per_1m }, tiers: [], service_tiers: {} };
  return { ...plan, rows: [{ ...first, price }] };
}

test('what asks and got no yes is named in the last line', async () => {
  const out = path.join(dir, 'plan.json');
  await terminal('import', '--provider', 'openai', '--out', out);
  const take = ['--take', 'openai/gpt-image-1', '--free', 'openai/moderation'];
  const { text } = await terminal('apply', out, '--yes', '--skip-asking', ...take);
  const last = text.split('\n').at(-1) ?? '';
  const left = asks.filter(
    (name) => name.startsWith('openai/') && name !== take[1] && name !== take[3],
  );
  expect(last.split(': ')).toEqual([expect.stringContaining('--take'), left.join(', ')]);
});

test('one yes takes all that ask, but for what has no amount', async () => {
  const out = path.join(dir, 'plan.json');
  await terminal('import', '--provider', 'openai', '--out', out);
  const { text } = await terminal('apply', out, '--yes', '--take-asking');
  expect(text.split('\n').at(-1)).toMatch(/: openai\/moderation$/);
  expect(await priceOf('openai', 'gpt-image-1')).toMatchObject({ source: 'import' });
});

test('a terminal proposes, shows, applies, lists, checks and undoes', async () => {
  const targets = fileOf('gateway.yaml', {
    providers: {
      targets: [
        { id: 'a', kind: 'openai', models: ['gpt-4o', 'gpt-4o-unheard-of'] },
        {
          ...{ id: 'b', kind: 'azure', provider: 'azure-eu', price_factor: 1.1 },
          models: [{ name: 'mine', upstream: 'dep', price_as: 'gpt-4o' }],
        },
      ],
    },
  });
  const out = path.join(dir, 'plan.json');
  const proposed = await terminal('import', '--targets', targets, '--out', out);
  expect(proposed.code).toBe(0);
  expect(proposed.text).toMatch(
    /New: 1\n {2}openai\/gpt-4o .*\nAsk .*: 1\n {2}azure-eu\/gpt-4o .* supposes the price of openai/,
  );
  expect(proposed.text).toMatch(/Missing.*: 1\n {2}openai\/gpt-4o-unheard-of \(near: gpt-4o/);
  const before = await terminal('check', '--targets', targets);
  expect(before).toMatchObject({ code: 1 });
  expect(before.text).toContain('openai/gpt-4o is served and has no price: it is refused.');
  const applied = await terminal('apply', out, '--yes', '--take', 'azure-eu/gpt-4o');
  expect(applied.text).toMatch(/pimp_\w+: 2 prices/);
  expect(await priceOf('openai', 'gpt-4o')).toMatchObject({ input_per_1m: 2.5 });
  expect(await priceOf('azure-eu', 'gpt-4o')).toMatchObject({ input_per_1m: 2.75 });
  const [, id = ''] = /(pimp_\w+):/.exec(applied.text) ?? [];
  expect((await terminal('list')).text).toContain(id);
  expect((await terminal('diff', out)).text).toContain('make it again: 2');
  expect((await terminal('undo', id)).text).toMatch(/^0 prices are back .* 2 are gone again\.$/);
});

test('what changes of a model beside its amounts is of the form that answers have', async () => {
  const { plan } = (await get('/v1/admin/price-plan?providers=groq')).body;
  const metadata = { reasoning: true, max_output_tokens: 512 };
  const body = { plan: { ...plan, rows: [{ ...plan.rows[0], metadata }] } };
  const answer = await post('/v1/admin/price-imports/diff', body);
  expect(answer.body.rows[0].changes).toEqual(
    expect.arrayContaining([
      { amount: 'max_output_tokens', was: null, now: '512', percent: null },
      { amount: 'reasoning', was: 'false', now: 'true', percent: null },
    ]),
  );
  expect(answers.diff.safeParse(answer.body)).toMatchObject({ success: true });
});

test('a plan file is of this very form', async () => {
  const out = path.join(dir, 'plan.json');
  await terminal('import', '--provider', 'groq', '--out', out);
  const plan = JSON.parse(readFileSync(out, 'utf8'));
  expect(Object.keys(plan)).toEqual([
    ...['format', 'made_at', 'sources', 'factors', 'told', 'rows', 'missing', 'gone'],
  ]);
  expect((await post('/v1/admin/price-imports/diff', { plan })).status).toBe(200);
});

test('a new price of another catalog that is far from those inside asks on a terminal', async () => {
  const entry = { litellm_provider: 'openai', mode: 'chat' };
  const from = fileOf('slipped.json', {
    'gpt-new': { ...entry, input_cost_per_token: 2.5e-3, output_cost_per_token: 1e-2 },
  });
  const out = path.join(dir, 'slipped-plan.json');
  const { text } = await terminal('import', '--provider', 'openai', '--from', from, '--out', out);
  expect(text).toMatch(
    /Ask .*: 1\n {2}openai\/gpt-new .*more than 10 times what genai-prices lists/,
  );
});
