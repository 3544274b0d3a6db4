import { one } from '../../../domain/sql';
import { chat, lastCharge, post } from '../../support/gateway';
import { CHAT, makePoor, type Poor, ticketsOf, topUp, world } from './poor';

// A ticket is opened by one route and brought to another: the configuration has changed meanwhile.

/** A gateway that serves the name "best" by these models, in their order. */
async function serving(...models: string[]): Promise<string> {
  const target = {
    id: 'sandbox',
    provider: 'openai',
    shape: 'openai',
    base_url: `${world.models_url}/v1`,
    api_key_env: 'TEST_MODELS_KEY',
    models,
  };
  const settings = {
    providers: { targets: [target] },
    model_groups: [{ name: 'best', models }],
  };
  return (await world.openGateway({ settings })).url;
}

async function ask(url: string, poor: Poor, cost_ticket?: string) {
  const headers = cost_ticket === undefined ? {} : { 'x-svc-cost-ticket': cost_ticket };
  const { status, text } = await post(
    url + CHAT,
    poor.key,
    chat('Hello', { model: 'best' }),
    headers,
  );
  return { status, body: JSON.parse(text) };
}

async function servedTo({ org_id }: Poor) {
  const { usage, actual_cost_nanos } = await lastCharge(world, org_id);
  const { provider, model } = await one<{ provider: string; model: string }>(
    world.api.db,
    `select coalesce(settled_provider, provider) as provider, coalesce(settled_model, model) as model
     from reservations where org_id = :org_id and status <> 'canceled' order by created_at desc, id desc limit 1`,
    { org_id },
  );
  const { prompt_tokens = 0, completion_tokens = 0 } = usage;
  return { provider, model, prompt_tokens, completion_tokens, cost: actual_cost_nanos };
}

test.each<[string, string[], string, [number, number]]>([
  ['in another order', ['gpt-4o', 'gpt-4o-mini'], 'gpt-4o', [2_500, 10_000]],
  ['with a model that is new before them', ['o4-mini', 'gpt-4o'], 'gpt-4o', [2_500, 10_000]],
  ['with the second of them behind it', ['o4-mini', 'gpt-4o-mini'], 'gpt-4o-mini', [150, 600]],
])(
  'a ticket that is brought to its models %s is served by one that it froze, at the price of that one',
  async (_, models, served, [input, output]) => {
    const poor = await makePoor();
    const refused = await ask(await serving('gpt-4o-mini', 'gpt-4o'), poor);
    expect(refused.status).toBe(402);
    await topUp(poor);
    const { id } = refused.body.cost_ticket;
    expect((await ask(await serving(...models), poor, id)).status).toBe(200);
    const { prompt_tokens, completion_tokens, ...charged } = await servedTo(poor);
    const cost = BigInt(prompt_tokens * input + completion_tokens * output);
    expect(charged).toEqual({ provider: 'openai', model: served, cost });
    expect(cost).toBeGreaterThan(0n);
  },
);

test('a ticket none of whose models serves its request any more is refused, stays open, and nothing is held', async () => {
  const poor = await makePoor();
  const before = await serving('gpt-4o-mini', 'gpt-4o');
  const now = await serving('o4-mini');
  const { id } = (await ask(before, poor)).body.cost_ticket;
  await topUp(poor);
  const refused = await ask(now, poor, id);
  expect([refused.status, refused.body.error.code]).toEqual([409, 'ticket_owner_differs']);
  expect((await ask(now, poor)).status).toBe(200);
  expect((await servedTo(poor)).model).toBe('o4-mini');
  expect(await ticketsOf(poor)).toMatchObject([{ id, status: 'open' }]);
  expect((await ask(before, poor, id)).status).toBe(200);
  expect((await servedTo(poor)).model).toBe('gpt-4o-mini');
});
