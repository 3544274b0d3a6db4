import { blankPrice } from '../../../domain/ledger/pricing';
import { chat, gatewayKey, lastCharge, openWorld, post, type World } from '../../support/gateway';
import { makePrice } from '../../support/ledger';
import { openScripted, type Scripted } from '../../support/upstream';

// A gateway with a target of a kind, in front of an upstream that a test scripts.

export let world: World;
export let upstream: Scripted;

beforeAll(async () => {
  world = await openWorld();
  upstream = await openScripted();
  const price = { ...blankPrice, tiers: null, input_per_1m: 1, output_per_1m: 10 };
  const priced = [
    'azure',
    'mistral',
    'openai',
    'acme',
    'bedrock',
    'deepseek',
    'groq',
    'gemini',
    'cohere',
    'openrouter',
  ];
  for (const provider of priced)
    await makePrice(world.api.db, { ...price, provider, model: 'the-model' });
});
afterAll(async () => {
  await world.close();
  await upstream.close();
});

export const usage = { prompt_tokens: 100, completion_tokens: 10, total_tokens: 110 };
export const completion = JSON.stringify({
  id: 'x',
  object: 'chat.completion',
  model: 'what-it-says',
  choices: [{ index: 0, message: { role: 'assistant', content: 'Hi' }, finish_reason: 'stop' }],
  usage,
});
export const spoken = JSON.stringify({
  id: 'x',
  type: 'message',
  role: 'assistant',
  model: 'what-it-says',
  content: [{ type: 'text', text: 'Hi' }],
  stop_reason: 'end_turn',
  usage: { input_tokens: 100, output_tokens: 10 },
});

export const key = { auth: { key_env: 'TEST_MODELS_KEY' } };

/** A gateway with one target; `warn` is told of what its log warns of. */
export async function openKind(target: object, base = '/base', warn?: (about: unknown) => void) {
  const row = {
    id: 't',
    base_url: `${upstream.url}${base}`,
    ...key,
    models: ['the-model'],
    ...target,
  };
  const made = await world.openGateway({ settings: { providers: { targets: [row] } } });
  if (warn !== undefined) Object.assign(made.gateway.log, { warn });
  return made.url;
}

export async function ask(url: string, body: object, route = '/v1/chat/completions', headers = {}) {
  const caller = await gatewayKey(world.api, world.org.org_id);
  const answer = await post(`${url}${route}`, caller, body, headers);
  return {
    ...answer,
    arrived: upstream.arrived.at(-1),
    charge: () => lastCharge(world, world.org.org_id),
  };
}

export const hello = { ...chat('Hello'), model: 'the-model' };
