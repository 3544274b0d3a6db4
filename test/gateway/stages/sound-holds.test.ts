import { blankPrice } from '../../../domain/ledger/pricing';
import { chat, gatewayKey, lastCharge, openWorld, post, type World } from '../../support/gateway';
import { makePrice } from '../../support/ledger';
import { openScripted, type Scripted } from '../../support/upstream';

let world: World;
let upstream: Scripted;
let url: string;

beforeAll(async () => {
  world = await openWorld();
  upstream = await openScripted();
  const price = { input_per_1m: 1, output_per_1m: 10, audio_input_per_1m: 30 };
  const model = 'gpt-4o-audio';
  await makePrice(world.api.db, {
    ...{ ...blankPrice, tiers: null, model },
    ...{ ...price, audio_output_per_1m: 80 },
  });
  const target = { id: 'openai', kind: 'openai', base_url: `${upstream.url}/v1`, models: [model] };
  const targets = [{ ...target, auth: { key_env: 'TEST_MODELS_KEY' } }];
  ({ url } = await world.openGateway({ settings: { providers: { targets } } }));
});
afterAll(async () => {
  await world.close();
  await upstream.close();
});

async function heldFor(more: object, content: object[] = [{ type: 'text', text: 'Hi' }]) {
  const key = await gatewayKey(world.api, world.org.org_id);
  const answer = { choices: [{ index: 0, message: { content: 'Hi' }, finish_reason: 'stop' }] };
  const usage = { prompt_tokens: 3, completion_tokens: 4, total_tokens: 7 };
  upstream.play([JSON.stringify({ ...answer, usage })], 'application/json');
  const body = { ...chat('', { model: 'gpt-4o-audio' }), max_completion_tokens: 1_000, ...more };
  const messages = [{ role: 'user', content }];
  const told = await post(`${url}/v1/chat/completions`, key, { ...body, messages });
  expect(told.status).toBe(200);
  return (await lastCharge(world, world.org.org_id)).held_nanos;
}

test('an answer that may be spoken is held for at the price of sound', async () => {
  const written = await heldFor({});
  const spoken = await heldFor({ modalities: ['text', 'audio'], audio: { voice: 'alloy' } });
  expect(spoken - written).toBe(1_000n * 70_000n);
});

test('a question that is spoken is held for at the price of sound', async () => {
  const data = 'A'.repeat(64_000);
  const sound = { type: 'input_audio', input_audio: { data, format: 'mp3' } };
  const [one, two] = [await heldFor({}, [sound]), await heldFor({}, [sound, sound])];
  const tokens = (two - one) / 30_000n;
  expect(tokens * 30_000n).toBe(two - one);
  expect(tokens).toBe(32n);
});
