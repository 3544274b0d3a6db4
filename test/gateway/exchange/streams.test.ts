import { brotliDecompressSync, gunzipSync } from 'node:zlib';
import {
  arrivals,
  chat,
  forgetArrivals,
  gatewayKey,
  lastCharge,
  openWorld,
  post,
  type World,
} from '../../support/gateway';
import { credit, makeOrg } from '../../support/ledger';

let world: World;
const path = '/v1/chat/completions';
const asked = { stream: true, stream_options: { include_usage: true } };
const exact = { status: 'settled', usage_source: 'upstream', outcome: 'completed' };

beforeAll(async () => {
  world = await openWorld();
});

afterAll(() => world.close());

const last = () => lastCharge(world, world.org.org_id);

/** The same request to the upstream itself and through the gateway. */
async function both(content: string, more: object = {}) {
  const body = chat(content, { max_tokens: null, ...more });
  const direct = await post(world.models_url + path, 'direct', body);
  const through = await post(world.url + path, world.key, body);
  expect(through.status).toBe(200);
  return { direct, through };
}

/** The usage that the upstream itself reports. */
function usageIn(text: string) {
  const told = [...text.matchAll(/"prompt_tokens":(\d+),"completion_tokens":(\d+)/g)];
  const [, prompt, completion] = told.at(-1) ?? [];
  return { prompt_tokens: Number(prompt), completion_tokens: Number(completion) };
}

test.each([
  'none',
  'crlf',
  'cr',
  'bytes',
  'big-line size=1000000',
  'chunks count=200',
  'comments count=3 delay=5',
  'usage-last',
  'usage-each',
])('a stream with %s reaches the client byte for byte and is metered', async (fault) => {
  const { direct, through } = await both(`Gr\u00fc\u00dfe \u{1f44b} [[fault:${fault}]]`, asked);
  expect(through.bytes.equals(direct.bytes)).toBe(true);
  expect(await last()).toMatchObject({ ...exact, usage: usageIn(direct.text) });
});

test.each([
  ['gzip', gunzipSync],
  ['br', brotliDecompressSync],
] as const)(
  'a stream that comes as %s although it was asked for plain: its plain bytes reach the client, and it is metered',
  async (fault, unpack) => {
    const { direct, through } = await both(`Hello [[fault:${fault}]]`, asked);
    const plain = unpack(direct.bytes);
    expect(through.headers['content-encoding']).toBeUndefined();
    expect(through.bytes.equals(plain)).toBe(true);
    expect(await last()).toMatchObject({ ...exact, usage: usageIn(plain.toString()) });
  },
);

test.each(['none', 'gzip', 'br', 'bytes', 'slow delay=20'])(
  'a JSON answer with %s reaches the client byte for byte and is metered',
  async (fault) => {
    const { direct, through } = await both(`Hello [[fault:${fault}]]`);
    expect(through.headers['content-encoding']).toBe(direct.headers['content-encoding']);
    expect(through.headers['content-type']).toBe(direct.headers['content-type']);
    expect(through.bytes.equals(direct.bytes)).toBe(true);
    expect(await last()).toMatchObject(exact);
  },
);

test.each(['crlf', 'cr', 'bytes', 'none'])(
  'usage that the client did not ask for is asked from the upstream and not shown (%s): the bytes are those of a direct call',
  async (fault) => {
    await forgetArrivals(world.models_url);
    const { direct, through } = await both(`Hello [[fault:${fault}]]`, { stream: true });
    expect(direct.text).not.toContain('usage');
    // The upstream writes `usage: null` into each chunk once it is asked.
    expect(through.text.replaceAll(',"usage":null', '')).not.toContain('usage');
    const shown = Buffer.from(through.text.replaceAll('"usage":null,', ''));
    expect(shown.equals(direct.bytes)).toBe(true);
    const [, arrived] = await arrivals(world.models_url);
    expect(arrived?.body.stream_options).toEqual({ include_usage: true });
    expect(await last()).toMatchObject(exact);
  },
);

test.each([{ include_usage: false }, null])(
  'stream_options %j count as not asked; what else they hold stays',
  async (stream_options) => {
    await forgetArrivals(world.models_url);
    const given = stream_options && { ...stream_options, include_obfuscation: false };
    const body = chat('Hello', { stream: true, stream_options: given });
    const { text } = await post(world.url + path, world.key, body);
    expect(text).not.toContain('prompt_tokens');
    const [arrived] = await arrivals(world.models_url);
    expect(arrived?.body).toEqual({
      ...body,
      stream_options: { ...given, include_usage: true },
    });
    expect(await last()).toMatchObject(exact);
  },
);

test('an upstream that refuses stream_options gets the bytes of the client, and its streams are billed by count', async () => {
  const target = { stream_usage: false };
  const gateway = await world.openGateway({ target });
  await forgetArrivals(world.models_url);
  const body = chat('Hello', { stream: true });
  const { bytes } = await post(gateway.url + path, world.key, body);
  const [arrived] = await arrivals(world.models_url);
  expect(arrived?.body).toEqual(body);
  const direct = await post(world.models_url + path, 'direct', body);
  expect(bytes.equals(direct.bytes)).toBe(true);
  const charge = await last();
  expect(charge).toMatchObject({ status: 'settled', usage_source: 'estimated' });
  expect(charge.actual_cost_nanos).toBeGreaterThan(0n);
});

test.each([{}, { stream: true }, { ...asked }])(
  'usage that never comes is estimated, never zero: %j',
  async (more) => {
    const { direct, through } = await both('Hello there [[fault:no-usage]]', more);
    if (more !== undefined && !('stream' in more))
      expect(through.bytes.equals(direct.bytes)).toBe(true);
    const charge = await last();
    expect(charge).toMatchObject({ status: 'settled', usage_source: 'estimated' });
    expect(charge.usage.prompt_tokens).toBeGreaterThan(5);
    expect(charge.usage.completion_tokens).toBeGreaterThan(5);
  },
);

test('an embedding without usage is charged by the count of its input', async () => {
  const body = { model: 'text-embedding-3-small', input: 'Hello there [[fault:no-usage]]' };
  expect((await post(`${world.url}/v1/embeddings`, world.key, body)).status).toBe(200);
  const charge = await last();
  expect(charge).toMatchObject({ status: 'settled', usage_source: 'estimated' });
  expect(charge.actual_cost_nanos).toBe(charge.held_nanos);
});

test('a reasoning model without usage is settled at its hold', async () => {
  const body = chat('Hello [[fault:no-usage]]', { model: 'o4-mini', stream: true });
  await post(world.url + path, world.key, body);
  const charge = await last();
  expect(charge).toMatchObject({ status: 'settled', usage_source: 'estimated' });
  expect(charge.actual_cost_nanos).toBe(charge.held_nanos);
});

test.each([0, -60_000, 60_000])(
  'a call longer than its hold lives is extended, and settles in time, with a clock that is %i ms off',
  async (off_ms) => {
    // A life that a machine takes for one extension is too short for it.
    for (const life_s of [2, 8, 24]) {
      const org = await makeOrg(world.api.db, { reservation_ttl_seconds: life_s });
      await credit(world.api.db, org.org_id, org.org_wallet, 1_000_000_000n);
      const key = await gatewayKey(world.api, org.org_id);
      const content = `Hello [[fault:chunks count=35]] [[fault:slow delay=${life_s * 50}]]`;
      const right = Date.now;
      const clock = jest.spyOn(Date, 'now').mockImplementation(() => right() + off_ms);
      const gateway = await world.openGateway();
      const { text } = await post(gateway.url + path, key, chat(content, { stream: true })).finally(
        () => clock.mockRestore(),
      );
      expect(text).toContain('[DONE]');
      expect(await lastCharge(world, org.org_id)).toMatchObject(exact);
      const [row] = await world.api.db('reservations').where({ org_id: org.org_id });
      expect(row.closed_at - row.created_at).toBeGreaterThan(life_s * 1_500);
      if (row.expires_at <= row.closed_at && life_s < 24) continue;
      expect(row.expires_at - row.closed_at).toBeGreaterThan(0);
      return;
    }
  },
);
