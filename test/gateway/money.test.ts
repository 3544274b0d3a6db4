import { countTokens } from 'gpt-tokenizer/encoding/o200k_base';
import { blankPrice } from '../../domain/ledger/pricing';
import { routes } from '../../gateway/routes';
import {
  arrivals,
  chat,
  forgetArrivals,
  gatewayKey,
  lastCharge,
  lastEntries,
  message,
  openWorld,
  post,
  type World,
} from '../support/gateway';
import { balance, credit, makeOrg, makePrice } from '../support/ledger';

let world: World;
const path = '/v1/chat/completions';

beforeAll(async () => {
  world = await openWorld();
});

afterAll(() => world.close());

// Nanos of one token.
const mini = { model: 'gpt-4o-mini', input: 150n, output: 600n };
const large = { model: 'gpt-4o', input: 2_500n, output: 10_000n };
const reasoning = { model: 'o4-mini', input: 1_100n, output: 4_400n };

const figures = [
  {
    title: 'plain tokens',
    ...mini,
    usage: 'prompt=100 completion=10',
    cost: 100n * 150n + 10n * 600n,
  },
  {
    title: 'cached tokens, once and at their own price',
    ...mini,
    usage: 'prompt=100 completion=10 cached=40',
    cost: 60n * 150n + 40n * 75n + 10n * 600n,
  },
  {
    title: 'cached tokens without a price of their own, at that of input',
    ...large,
    usage: 'prompt=100 completion=10 cached=40',
    cost: 100n * 2_500n + 10n * 10_000n,
  },
  {
    title: 'reasoning tokens, once',
    ...reasoning,
    usage: 'prompt=10 completion=60 reasoning=48',
    cost: 10n * 1_100n + 60n * 4_400n,
  },
  {
    title: 'more than was held',
    ...mini,
    usage: 'prompt=5000 completion=64',
    cost: 5_000n * 150n + 64n * 600n,
  },
];

describe.each([{ stream: false }, { stream: true }])('%j', ({ stream }) => {
  test.each(figures)('$title: the entries are the hold and the price arithmetic', async (row) => {
    const { model, input, output, usage, cost } = row;
    const org = await makeOrg(world.api.db);
    await credit(world.api.db, org.org_id, org.org_wallet, 1_000_000_000n);
    const key = await gatewayKey(world.api, org.org_id);
    const content = `Hello [[fault:usage ${usage}]]`;
    const answer = await post(world.url + path, key, chat(content, { model, stream }));
    expect(answer.status).toBe(200);
    const charge = await lastCharge(world, org.org_id);
    expect(charge).toMatchObject({ status: 'settled', usage_source: 'upstream' });
    // Three tokens for the answer's start, four for a message, and all that it may say.
    const held = BigInt(3 + 4 + countTokens(content)) * input + 64n * output;
    expect(await lastEntries(world, org.org_id)).toEqual([
      { type: 'reservation', amount_nanos: -held },
      { type: 'settlement', amount_nanos: held - cost },
    ]);
    expect(await balance(world.api.db, org.org_wallet)).toEqual({
      balance_nanos: 1_000_000_000n - cost,
      reserved_nanos: 0n,
    });
  });
});

test('a balance equal to the hold is enough', async () => {
  const { db } = world.api;
  const body = chat('Say hello.');
  await post(world.url + path, world.key, body);
  const { held_nanos, actual_cost_nanos } = await lastCharge(world, world.org.org_id);
  const org = await makeOrg(db);
  await credit(db, org.org_id, org.org_wallet, held_nanos);
  const key = await gatewayKey(world.api, org.org_id);
  expect((await post(world.url + path, key, body)).status).toBe(200);
  await lastCharge(world, org.org_id);
  expect((await balance(db, org.org_wallet)).balance_nanos).toBe(held_nanos - actual_cost_nanos);
});

test("a target's tokens are held as so many of ours as its factor says", async () => {
  const plain = await world.openGateway();
  const double = await world.openGateway({ target: { token_factor: 2 } });
  const prompt = chat('long '.repeat(1_000), { max_tokens: 1 });
  const held: number[] = [];
  for (const { url } of [plain, double]) {
    expect((await post(url + path, world.key, prompt)).status).toBe(200);
    held.push(Number((await lastCharge(world, world.org.org_id)).held_nanos));
  }
  const [once = 0, twice = 0] = held;
  expect(twice / once).toBeGreaterThan(1.9);
  expect(twice / once).toBeLessThan(2.1);
});

test('each priced route is refused at balance zero, and nothing goes upstream', async () => {
  const org = await makeOrg(world.api.db);
  const key = await gatewayKey(world.api, org.org_id);
  await forgetArrivals(world.models_url);
  // A call of a tool is priced by the number, at a server that nobody reaches here.
  const mcp = { servers: [{ name: 'tools', url: 'http://127.0.0.1:9/mcp' }] };
  await makePrice(world.api.db, {
    ...blankPrice,
    tiers: null,
    provider: 'mcp',
    model: '*',
    per_request: 0.001,
  });
  const gateway = await world.openGateway({ settings: { mcp } });
  const params = { name: 'add', arguments: {} };
  const tool_call = { jsonrpc: '2.0', id: 1, method: 'tools/call', params };
  const form = new FormData();
  form.set('file', new File([Buffer.alloc(8_000)], 'noise.bin'));
  form.set('model', 'whisper-1');
  const bodies: Record<string, object> = {
    '/v1/chat/completions': chat('Hello'),
    '/v1/unified/chat/completions': chat('Hello'),
    '/v1/messages': message('Hello'),
    '/v1/responses': { model: 'gpt-4o-mini', input: 'Hello', max_output_tokens: 64 },
    '/v1/embeddings': { model: 'text-embedding-3-small', input: 'Hello' },
    '/v1/completions': { model: 'gpt-4o-mini', prompt: 'Hello' },
    // The one that is usual is free.
    '/v1/moderations': { model: 'gpt-4o-mini', input: 'Hello' },
    '/v1/audio/speech': { model: 'gpt-4o-mini-tts', input: 'Hello', voice: 'alloy' },
    '/v1/audio/transcriptions': form,
    '/mcp': tool_call,
    '/mcp/:id': tool_call,
  };
  const free = '/v1/messages/count_tokens';
  const posted = routes.filter(({ method, path }) => method === 'POST' && path !== free);
  expect(Object.keys(bodies).sort()).toEqual(posted.map((route) => route.path).sort());
  for (const [priced_path, body] of Object.entries(bodies)) {
    const url = gateway.url + priced_path.replace(':id', 'tools');
    for (const more of [{}, { stream: true }]) {
      const status = body === form ? await sendForm(url, key, form, more) : undefined;
      const answer = status ?? (await post(url, key, { ...body, ...more })).status;
      expect([priced_path, answer]).toEqual([priced_path, 402]);
    }
  }
  expect(await arrivals(world.models_url)).toEqual([]);
});

async function sendForm(url: string, key: string, body: FormData, more: object): Promise<number> {
  for (const [name, value] of Object.entries(more)) body.set(name, String(value));
  const answer = await fetch(url, {
    method: 'POST',
    body,
    headers: { authorization: `Bearer ${key}` },
  });
  await answer.arrayBuffer();
  return answer.status;
}

test('an embedding of token lists is counted by their number and charged at its price', async () => {
  const org = await makeOrg(world.api.db);
  await credit(world.api.db, org.org_id, org.org_wallet, 1_000_000_000n);
  const key = await gatewayKey(world.api, org.org_id);
  const body = {
    model: 'text-embedding-3-small',
    input: [
      [1, 2, 3],
      [4, 5],
    ],
  };
  expect((await post(`${world.url}/v1/embeddings`, key, body)).status).toBe(200);
  await lastCharge(world, org.org_id);
  expect(await lastEntries(world, org.org_id)).toEqual([
    { type: 'reservation', amount_nanos: -100n },
    { type: 'settlement', amount_nanos: 0n },
  ]);
});

test('each organization is charged by its factor, on every route and in streams', async () => {
  const orgs = await Promise.all(
    [1, 0.76, 1.2, 0].map(async (price_factor) => {
      const { org_id, org_wallet } = await makeOrg(world.api.db, { price_factor });
      await credit(world.api.db, org_id, org_wallet, 1_000_000_000n);
      return { org_id, price_factor, key: await gatewayKey(world.api, org_id) };
    }),
  );
  const hello = 'Hello [[fault:usage prompt=100 completion=10 cached=40]]';
  const claude = { model: 'claude-sonnet-4-5', max_tokens: 32 };
  const calls: [string, object][] = [
    [path, chat(hello)],
    [path, chat(hello, { stream: true })],
    ['/v1/responses', { model: 'gpt-4o-mini', input: 'Hello', max_output_tokens: 32 }],
    ['/v1/messages', { ...claude, messages: [{ role: 'user', content: 'Hello' }] }],
    ['/v1/embeddings', { model: 'text-embedding-3-small', input: 'Hello '.repeat(200) }],
    ['/v1/audio/speech', { model: 'gpt-4o-mini-tts', voice: 'alloy', input: 'Hello there.' }],
  ];
  for (const [route, body] of calls) {
    const paid: [bigint, bigint][] = [];
    for (const { org_id, key } of orgs) {
      expect([route, (await post(world.url + route, key, body)).status]).toEqual([route, 200]);
      const { held_nanos, actual_cost_nanos } = await lastCharge(world, org_id);
      paid.push([held_nanos, actual_cost_nanos]);
    }
    const [[held, cost] = [0n, 0n]] = paid;
    for (const [n, { price_factor }] of orgs.entries()) {
      const percent = BigInt(Math.round(price_factor * 100));
      // A hold is rounded up, a cost half up.
      const due = [(held * percent + 99n) / 100n, (cost * percent + 50n) / 100n];
      expect([cost > 0n, route, paid[n]]).toEqual([true, route, due]);
    }
  }
});

test('all choices of a request count: the hold is the cap times n', async () => {
  const org = await makeOrg(world.api.db);
  await credit(world.api.db, org.org_id, org.org_wallet, 1_000_000_000n);
  const key = await gatewayKey(world.api, org.org_id);
  const { text } = await post(world.url + path, key, chat('Hello', { n: 3 }));
  expect(JSON.parse(text).choices).toHaveLength(3);
  const { held_nanos } = await lastCharge(world, org.org_id);
  await post(world.url + path, key, chat('Hello'));
  const one_choice = await lastCharge(world, org.org_id);
  expect(held_nanos - one_choice.held_nanos).toBe(2n * 64n * 600n);
});

describe('a model that reasons unseen is settled at what was held for it where its usage is missing', () => {
  let url: string;

  beforeAll(async () => {
    const price = { input_per_1m: 1, output_per_1m: 4, max_output_tokens: 12_000, reasoning: true };
    const model = { provider: 'brief', model: 'o4-mini' };
    await makePrice(world.api.db, { ...blankPrice, tiers: null, ...price, ...model });
    url = (await world.openGateway({ target: { provider: 'brief' } })).url + path;
  });

  test.each<[string, number, object, number]>([
    ['the organization', 9_000, {}, 9_000],
    ['the organization, below what is usual', 700, {}, 700],
    ['the price', 90_000, {}, 12_000],
    ['the request', 9_000, { max_completion_tokens: 300 }, 300],
    ['the request, above the price', 9_000, { max_completion_tokens: 20_000 }, 20_000],
  ])('as said by %s', async (_, default_max_completion_tokens, cap, completion_tokens) => {
    const { db } = world.api;
    const org = await makeOrg(db, { default_max_completion_tokens });
    await credit(db, org.org_id, org.org_wallet, 10_000_000_000n);
    const key = await gatewayKey(world.api, org.org_id);
    const more = { model: 'o4-mini', max_tokens: undefined, ...cap };
    for (const fault of ['no-usage']) {
      const { status } = await post(url, key, chat(`Hello [[fault:${fault}]]`, more));
      expect(status).toBe(200);
      const charge = await lastCharge(world, org.org_id);
      expect(charge).toMatchObject({ status: 'settled', usage_source: 'estimated' });
      expect(charge.usage).toMatchObject({ completion_tokens });
      expect(charge.actual_cost_nanos).toBe(charge.held_nanos);
    }
  });
});
