import { readFileSync } from 'node:fs';
import path from 'node:path';
import { parse } from 'yaml';
import { blankPrice } from '../../../domain/ledger/pricing';
import { one } from '../../../domain/sql';
import { shapeOf, spokenBy, type TargetSettings } from '../../../gateway/config/targets';
import type { Served } from '../../../gateway/providers/kind';
import { kinds } from '../../../gateway/providers/table';
import { root } from '../../../runtime/root';
import { standInFor } from '../../../sandbox/providers/places';
import { chat, gatewayKey, lastCharge, message, post } from '../../support/gateway';
import { makePrice } from '../../support/ledger';
import { encode, good } from '../families/sound-forms';
import { openSold, options, origin, world } from './sold';

// Each target of docs/providers.md, as it is written there, and each family that it serves.

const document = readFileSync(path.join(root, 'docs/providers.md'), 'utf8');
const rows: TargetSettings[] = [...document.matchAll(/^### \w+\n\n```yaml\n([^`]+)```/gm)].flatMap(
  ([, block = '']) => parse(block).providers.targets,
);

type Asked = readonly [route: string, body: object, streams: boolean];
const requests: Record<Served, (model: string, text: string) => Asked> = {
  chat_completions: (model, text) => ['/v1/chat/completions', chat(text, { model }), true],
  responses: (model, text) => [
    '/v1/responses',
    { model, input: text, max_output_tokens: 64 },
    true,
  ],
  messages: (model, text) => ['/v1/messages', message(text, { model }), true],
  messages_count_tokens: (model, text) => {
    const { max_tokens: _, ...body } = message(text, { model });
    return ['/v1/messages/count_tokens', body, false];
  },
  embeddings: (model, text) => ['/v1/embeddings', { model, input: text }, false],
  completions: (model, text) => ['/v1/completions', { model, prompt: text, max_tokens: 64 }, true],
  moderations: (model, text) => ['/v1/moderations', { model, input: text }, false],
  audio_speech: (model, text) => [
    '/v1/audio/speech',
    { model, voice: 'alloy', input: text },
    false,
  ],
  audio_transcriptions: (model) => ['/v1/audio/transcriptions', { model }, false],
};
const all_families = Object.keys(requests) as Served[];

/** What the sandbox answers by, in a name that its provider would take. */
function upstreamOf({ kind, shape }: TargetSettings, family: Served): string {
  if (kind === 'bedrock' && shape === 'openai') return 'openai.gpt-oss-120b-1:0';
  if (kind === 'vertex' && shape === 'openai') return 'google/gemini-3.8-flash';
  if (kind === 'vertex' && family === 'embeddings') return 'text-embedding-005';
  if (shape === 'gemini') return 'gemini-3.8-pro';
  if (shape === 'converse') return 'amazon.nova-pro-v1:0';
  if (family.startsWith('messages')) return 'claude-opus-5-5';
  const names: Partial<Record<Served, string>> = {
    embeddings: 'an-embed',
    moderations: 'a-moderation',
    audio_speech: 'a-tts',
    audio_transcriptions: 'a-whisper',
  };
  return names[family] ?? 'a-chat';
}

function familiesOf(row: TargetSettings): readonly Served[] {
  const { families } = spokenBy(row);
  if (families !== undefined) return families;
  return all_families.filter((one) => !one.startsWith('messages'));
}

/** Without the providers' own fronts, which are proved elsewhere, a cut answer is the sandbox's. */
const cuts = (row: TargetSettings) => row.kind !== 'bedrock';

let url: string;

beforeAll(async () => {
  const google = process.env.TEST_GOOGLE_FILE;
  Object.assign(process.env, {
    GATEWAY_AMBIENT_AUTH: 'aws,google,azure',
    AWS_ACCESS_KEY_ID: 'AKIATEST',
    AWS_SECRET_ACCESS_KEY: 'aws-secret',
    AWS_BEARER_TOKEN_BEDROCK: 'bedrock-key',
    GOOGLE_APPLICATION_CREDENTIALS: google,
    GCP_SA: google,
    AZURE_KEY: 'azure-key',
  });
  for (const [, name = ''] of document.matchAll(/_(?:env|ENV): (\w+)/g))
    if (!/AWS|AZURE|GCP/.test(name)) process.env[name] = 'upstream-secret';
  options.bedrock = { ...options.bedrock, region: 'eu-west-1' };
  options.azure = {
    ...options.azure,
    deployments: { has: () => true } as unknown as ReadonlySet<string>,
  };
  const money = { input_per_1m: 2, output_per_1m: 8, per_minute: 0.006, audio_output_per_1m: 8 };
  const targets = rows.map((row, at) => {
    const { discover: _, ...rest } = row;
    const models = familiesOf(row).map((family) => ({
      name: `${row.id}/${family}`,
      upstream: upstreamOf(row, family),
      price_as: 'm',
    }));
    return { ...standInFor(rest as TargetSettings, origin), provider: `p${at}`, models };
  });
  for (const { provider } of targets)
    await makePrice(world.api.db, { ...blankPrice, tiers: null, provider, model: 'm', ...money });
  url = await openSold({}, targets);
});

/** Providers on wires of their own are reached by translation. */
const translated = new Set(['gemini', 'converse']);
const unified_ids = new Set(rows.filter((row) => translated.has(shapeOf(row))).map(({ id }) => id));

async function ask(
  model: string,
  family: Served,
  text: string,
  stream: boolean,
  more: object = {},
) {
  const caller = await gatewayKey(world.api, world.org.org_id);
  const [plain, body] = requests[family](model, text);
  const is_translated = unified_ids.has(model.split('/')[0] ?? '');
  const is_unified = is_translated && family === 'chat_completions';
  const route = is_unified ? '/v1/unified/chat/completions' : plain;
  if (family !== 'audio_transcriptions')
    return post(`${url}${route}`, caller, { ...body, ...more, ...(stream ? { stream } : {}) });
  const parts = good.map((part) => (part.name === 'model' ? { ...part, value: model } : part));
  // The sandbox's faults are asked for in the text that goes with a sound.
  const form = encode(text === 'Hello' ? parts : [...parts, { name: 'prompt', value: text }]);
  return post(`${url}${route}`, caller, form.toString('latin1'), {
    'content-type': 'multipart/form-data; boundary=b0undary',
  });
}

const schema = { type: 'object', properties: { a: { type: 'string' } } };
/** A function as each family's requests name it. */
const tools: Partial<Record<Served, object>> = {
  chat_completions: { type: 'function', function: { name: 'f', parameters: schema } },
  responses: { type: 'function', name: 'f', parameters: schema },
  messages: { name: 'f', input_schema: schema },
};

test('there is a target of each kind', () => {
  const found = new Set(rows.map(({ kind = 'compatible' }) => kind));
  expect([...found].sort()).toEqual([...kinds.keys()].sort());
});

/** What the provider said that the newest call cost. */
async function told(): Promise<string | null> {
  const row = await one<{ told: string | null }>(
    world.api.db,
    `select provider_cost_usd::text as told from reservations order by created_at desc, id desc limit 1`,
  );
  return row.told;
}

const cases = rows.flatMap((row) =>
  familiesOf(row).map((family) => [row.id, family, row] as const),
);

test.each(cases)('%s serves %s: whole, in a stream, refused and cut', async (id, family, row) => {
  const model = `${id}/${family}`;
  const charge = () => lastCharge(world, world.org.org_id);
  const is_free = family === 'messages_count_tokens';
  const whole = await ask(model, family, 'Hello', false);
  expect([whole.status, whole.status === 200 ? '' : whole.text]).toEqual([200, '']);
  if (!is_free) expect((await charge()).actual_cost_nanos).toBeGreaterThan(0n);
  const tells = row.kind === 'openrouter' || row.kind === 'xai';
  expect([tells, await told()]).toEqual([tells, tells ? expect.stringMatching(/^0\.0000/) : null]);
  const refused = await ask(model, family, '[[fault:error status=400]]', false);
  expect([refused.status, JSON.parse(refused.text).error.message]).toEqual([
    400,
    expect.stringMatching(/\w/),
  ]);
  if (!is_free) expect((await charge()).actual_cost_nanos).toBe(0n);
  const [, , streams] = requests[family](model, '');
  if (!streams) return;
  const streamed = await ask(model, family, 'Hello', true);
  expect(streamed.status).toBe(200);
  expect(streamed.text).toMatch(/Hello/);
  const { actual_cost_nanos, outcome } = await charge();
  expect([actual_cost_nanos > 0n, outcome]).toEqual([true, 'completed']);
  if (tells) expect(await told()).toMatch(/^0\.0000/);
  if (!cuts(row)) return;
  const cut = await ask(model, family, 'Hello to you all [[fault:cut after=5]]', true);
  expect(cut.status).toBe(200);
  expect(cut.text).toMatch(/error/);
  const { actual_cost_nanos: paid } = await charge();
  expect(paid > 0n && paid <= actual_cost_nanos * 4n).toBe(true);
});

const chats = cases.filter(([, family]) => family === 'chat_completions');

test.each(chats)('%s gets no mark for a cache that it refuses in %s', async (id, family) => {
  const cache_control = { type: 'ephemeral' };
  const content = [{ type: 'text', text: 'Hello', cache_control }];
  const more = { cache_control, messages: [{ role: 'user', content }] };
  const { status, text } = await ask(`${id}/${family}`, family, 'Hello', false, more);
  expect([status, status === 200 ? '' : text]).toEqual([200, '']);
});

const callers = cases.filter(([, family]) => tools[family] !== undefined);

test.each(callers)('%s calls tools in %s, whole and in a stream', async (id, family) => {
  const model = `${id}/${family}`;
  for (const stream of [false, true]) {
    const more = { tools: [tools[family]] };
    const { status, text } = await ask(model, family, 'Hello', stream, more);
    expect([stream, status, status === 200 ? '' : text]).toEqual([stream, 200, '']);
    // Its name, and in a stream its arguments in pieces.
    expect(text).toMatch(/"name":\s*"f"/);
    const given = [...text.matchAll(/"(?:arguments|partial_json|delta)":\s*"((?:[^"\\]|\\.)*)"/g)];
    const whole = given.map(([, piece]) => JSON.parse(`"${piece}"`)).join('');
    const is_told = whole.includes('{"a":"Hello"}') || text.includes('"input":{"a":"Hello"}');
    expect([stream, is_told]).toEqual([stream, true]);
    expect((await lastCharge(world, world.org.org_id)).actual_cost_nanos).toBeGreaterThan(0n);
  }
});
