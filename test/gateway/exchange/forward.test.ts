import { many } from '../../../domain/sql';
import { chat, gatewayKey, lastCharge, lastEntries, post } from '../../support/gateway';
import { first, openRouted, path, refusedWith, second, world } from './routed';

function charge() {
  return lastCharge(world, world.org.org_id);
}

test.each([404, 408, 429, 500, 502, 503, 529, 401])(
  'what a target refuses with %i is served by the next, and charged once',
  async (status) => {
    first.answer = refusedWith(status);
    const answer = await post((await openRouted()) + path, world.key, chat('Hello'));
    expect([answer.status, first.asked.length, second.asked.length]).toEqual([200, 1, 1]);
    expect((await charge()).actual_cost_nanos).toBe(188_400n);
    expect((await lastEntries(world, world.org.org_id)).map(({ type }) => type)).toEqual([
      'reservation',
      'settlement',
    ]);
  },
);

test('a target that cannot be reached is passed over', async () => {
  const url = await openRouted({
    first_models: ['gpt-4o'],
    second_models: ['gpt-4o-mini'],
    second_url: 'http://127.0.0.1:9/v1',
    fallback: { models: { 'gpt-4o-mini': ['gpt-4o'] } },
  });
  expect((await post(url + path, world.key, chat('Hello'))).status).toBe(200);
  expect(first.asked).toEqual(['gpt-4o']);
});

test("a client's own mistake is not tried elsewhere", async () => {
  first.answer = refusedWith(400);
  const answer = await post((await openRouted()) + path, world.key, chat('Hello'));
  expect([answer.status, second.asked.length]).toEqual([400, 0]);
  expect(answer.text).toContain('No: 400');
  expect((await charge()).actual_cost_nanos).toBe(0n);
});

test('where all refuse, the client is told what the last one said, and nothing is charged', async () => {
  first.answer = refusedWith(500);
  second.answer = refusedWith(503);
  const answer = await post((await openRouted()) + path, world.key, chat('Hello'));
  expect([answer.status, first.asked.length, second.asked.length]).toEqual([503, 1, 1]);
  expect((await charge()).actual_cost_nanos).toBe(0n);
});

test('a request that broke off may have been answered: it is repeated nowhere unless the configuration says so', async () => {
  first.answer = (res) => void res.destroy();
  const careful = await post((await openRouted()) + path, world.key, chat('Hello'));
  expect([careful.status, second.asked.length]).toEqual([502, 0]);
  expect((await charge()).actual_cost_nanos).toBe(0n);
  const url = await openRouted({ fallback: { after_uncertain: true } });
  expect((await post(url + path, world.key, chat('Hello'))).status).toBe(200);
  expect([first.asked.length, second.asked.length]).toEqual([2, 1]);
  expect((await charge()).actual_cost_nanos).toBe(188_400n);
});

test('an answer that has begun is never repeated', async () => {
  first.answer = (res) => {
    res.writeHead(200, { 'content-type': 'text/event-stream' });
    res.write(
      'data: {"id":"x","choices":[{"index":0,"delta":{"role":"assistant","content":"Hi"}}]}\n\n',
    );
    setTimeout(() => res.destroy(), 50);
  };
  const url = await openRouted({ fallback: { after_uncertain: true } });
  const answer = await post(url + path, world.key, chat('Hello', { stream: true }));
  expect(answer.text).toContain('upstream_failed');
  expect(second.asked).toEqual([]);
  expect((await charge()).actual_cost_nanos).toBeGreaterThan(0n);
});

test('a target is asked again as often as `retries` says, then the next', async () => {
  first.answer = refusedWith(503);
  const url = await openRouted({ fallback: { retries: 2, backoff_ms: 1 } });
  expect((await post(url + path, world.key, chat('Hello'))).status).toBe(200);
  expect([first.asked.length, second.asked.length]).toEqual([3, 1]);
});

test('a model that stands in is named upstream, its price was frozen, and it is what is charged', async () => {
  const url = await openRouted({
    first_models: ['gpt-4o'],
    second_models: ['gpt-4o-mini'],
    fallback: { models: { 'gpt-4o': ['gpt-4o-mini'] } },
  });
  first.answer = refusedWith(503);
  const answer = await post(
    url + path,
    world.key,
    chat('Hello', { model: 'gpt-4o', max_tokens: 64 }),
  );
  expect(answer.status).toBe(200);
  expect(second.asked).toEqual(['gpt-4o-mini']);
  const { actual_cost_nanos, held_nanos } = await charge();
  expect(actual_cost_nanos).toBe(188_400n);
  // The dearest was held: 64 tokens out of gpt-4o alone are 640,000 nanos.
  expect(held_nanos).toBeGreaterThan(640_000n);
  const [entry] = await many<{ model: string }>(
    world.api.db,
    `select model from wallet_transactions where type = 'settlement' and wallet_id = :org_wallet order by seq desc limit 1`,
    { org_wallet: world.org.org_wallet },
  );
  expect(entry?.model).toBe('gpt-4o-mini');
});

test('a group is called by its name, its models in their order', async () => {
  const url = await openRouted({
    first_models: ['gpt-4o'],
    second_models: ['gpt-4o-mini'],
    model_groups: [{ name: 'fast', models: ['gpt-4o-mini', 'gpt-4o'] }],
  });
  expect((await post(url + path, world.key, chat('Hello', { model: 'fast' }))).status).toBe(200);
  expect([first.asked, second.asked]).toEqual([[], ['gpt-4o-mini']]);
  second.answer = refusedWith(500);
  const stream = chat('Hello', { model: 'fast', stream: true });
  expect((await post(url + path, world.key, stream)).status).toBe(200);
  expect(first.asked).toEqual(['gpt-4o']);
});

test('neither a group nor a fallback passes by allowed_models', async () => {
  const url = await openRouted({
    first_models: ['gpt-4o'],
    second_models: ['gpt-4o-mini'],
    fallback: { models: { 'gpt-4o': ['gpt-4o-mini'] } },
    model_groups: [{ name: 'fast', models: ['gpt-4o-mini', 'gpt-4o'] }],
  });
  const of = (allowed_models: string[]) =>
    gatewayKey(world.api, world.org.org_id, { allowed_models });
  const mini = await of(['gpt-4o-mini']);
  const minis = await of(['gpt-4o-m*']);
  const only = await of(['gpt-4o']);
  const name = await of(['fast']);
  const none = await of([]);
  const status = async (key: string, model: string) =>
    (await post(url + path, key, chat('Hello', { model }))).status;
  expect(await status(none, 'fast')).toBe(403);
  // The name of a group says nothing of its models.
  expect(await status(name, 'fast')).toBe(403);
  expect(await status(mini, 'gpt-4o')).toBe(403);
  first.asked = [];
  second.asked = [];
  expect(await status(mini, 'fast')).toBe(200);
  expect(await status(minis, 'fast')).toBe(200);
  expect(await status(minis, 'gpt-4o')).toBe(403);
  expect([first.asked, second.asked]).toEqual([[], ['gpt-4o-mini', 'gpt-4o-mini']]);
  // A model that stands in is left out if the key may not use it.
  first.answer = refusedWith(500);
  expect(await status(only, 'gpt-4o')).toBe(500);
  expect(second.asked).toHaveLength(2);
  const headers = { authorization: `Bearer ${mini}` };
  const listed = await fetch(`${url}/v1/models`, { headers });
  const { data } = (await listed.json()) as { data: { id: string }[] };
  expect(data.map(({ id }) => id)).toEqual(['gpt-4o-mini', 'fast']);
});
