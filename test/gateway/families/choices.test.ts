import { chat, gatewayKey, lastCharge, openWorld, post, type World } from '../../support/gateway';
import { credit, makeOrg, makePrice, TOKEN } from '../../support/ledger';
import { openScripted, type Scripted } from '../../support/upstream';

// Chats of several choices that say no cap: the ledger chooses it, and holds it for each of them.

let world: World;
let scripted: Scripted;
let url: string;
const path = '/v1/chat/completions';
const provider = 'brief';

beforeAll(async () => {
  world = await openWorld();
  scripted = await openScripted();
  const { db } = world.api;
  await makePrice(db, { provider, model: 'gpt-4o-mini' });
  await makePrice(db, { provider, model: 'gpt-4o', max_output_tokens: 1_000 });
  await makePrice(db, { provider, model: 'o4-mini', reasoning: true });
  url = (await world.openGateway({ target: { provider } })).url + path;
});

afterAll(async () => {
  await world.close();
  await scripted.close();
});

async function openCaller(default_max_completion_tokens: number) {
  const { db } = world.api;
  const org = await makeOrg(db, { default_max_completion_tokens });
  await credit(db, org.org_id, org.org_wallet, 10_000_000_000n);
  return { org_id: org.org_id, key: await gatewayKey(world.api, org.org_id) };
}

test.each<[string, number, object, bigint]>([
  ['more than is usual, by the organization', 16_000, { n: 2 }, 32_000n],
  ['less than is usual, by the organization', 256, { n: 2 }, 512n],
  ['what the price allows', 16_000, { model: 'gpt-4o', n: 3 }, 3_000n],
  ['tries, of which one is shown', 256, { best_of: 3 }, 768n],
  ['one choice', 256, { n: 1 }, 256n],
  ['a cap for each of them', 16_000, { n: 2, max_tokens: 100 }, 200n],
])('what is held for all choices: %s', async (_, setting, asked, completion_tokens) => {
  const { org_id, key } = await openCaller(setting);
  const body = chat('Hello', { max_tokens: undefined, ...asked });
  expect((await post(url, key, body)).status).toBe(200);
  const { held_nanos } = await lastCharge(world, org_id);
  const least = { ...body, n: 1, best_of: 1, max_tokens: 1 };
  expect((await post(url, key, least)).status).toBe(200);
  const one_token = await lastCharge(world, org_id);
  expect(held_nanos - one_token.held_nanos).toBe((completion_tokens - 1n) * 2n * TOKEN);
});

test('a model that reasons unseen is settled at what was held for all choices, if its usage is missing', async () => {
  const { org_id, key } = await openCaller(9_000);
  const more = { model: 'o4-mini', max_tokens: undefined, n: 2 };
  expect((await post(url, key, chat('Hello [[fault:no-usage]]', more))).status).toBe(200);
  const charge = await lastCharge(world, org_id);
  expect(charge).toMatchObject({ status: 'settled', usage_source: 'estimated' });
  expect(charge.usage).toMatchObject({ completion_tokens: 18_000 });
  expect(charge.actual_cost_nanos).toBe(charge.held_nanos);
});

test.each([{ n: 3 }, { best_of: 3 }])(
  'output of %j without a cap is bounded by what the price allows for each',
  async (asked) => {
    const { org_id, key } = await openCaller(256);
    const target = { provider, base_url: `${scripted.url}/v1` };
    const gateway = await world.openGateway({ target });
    const usage = { prompt_tokens: 10, completion_tokens: 9_000_000, total_tokens: 9_000_010 };
    const choices = [{ index: 0, message: { content: 'Hi' }, finish_reason: 'stop' }];
    scripted.play([JSON.stringify({ choices, usage })], 'application/json');
    const body = chat('Hello', { model: 'gpt-4o', max_tokens: undefined, ...asked });
    expect((await post(gateway.url + path, key, body)).status).toBe(200);
    const charge = await lastCharge(world, org_id);
    expect(charge.usage).toMatchObject({ prompt_tokens: 10, completion_tokens: 3_000 });
  },
);
