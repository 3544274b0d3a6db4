import { blankPrice } from '../../../domain/ledger/pricing';
import { gatewayKey, openWorld, post, type World } from '../../support/gateway';
import { makePrice } from '../../support/ledger';
import { openScripted, type Scripted } from '../../support/upstream';

// What the settings of a target send beside its key is no client's to read, whoever repeats it.

const in_header = 'pk-very-secret+1/2345';
const in_query = 'qt-very-secret+1/2345';
const in_address = 'bq-very-secret-12345';

let world: World;
let upstream: Scripted;
let url: string;

beforeAll(async () => {
  world = await openWorld();
  upstream = await openScripted();
  await makePrice(world.api.db, {
    ...{ ...blankPrice, tiers: null, provider: 'own', model: 'm' },
    ...{ input_per_1m: 1, output_per_1m: 1 },
  });
  const target = {
    ...{ id: 't', kind: 'compatible', shape: 'openai', provider: 'own', models: ['m'] },
    base_url: `${upstream.url}/v1?code=${in_address}`,
    auth: { key_env: 'TEST_MODELS_KEY' },
    headers: { 'x-portkey-api-key': in_header, 'x-team': 'platform' },
    query: { access_token: in_query, 'api-version': '2026-01-01' },
  };
  ({ url } = await world.openGateway({ settings: { providers: { targets: [target] } } }));
});
afterAll(async () => {
  await world.close();
  await upstream.close();
});

const asked = () =>
  `"max_tokens" is refused for ${in_header} of platform at /v1/chat/completions?code=${in_address}&access_token=${encodeURIComponent(in_query)}&api-version=2026-01-01`;

async function told(more: object = {}): Promise<string> {
  const key = await gatewayKey(world.api, world.org.org_id);
  const body = { model: 'm', max_tokens: 5, messages: [{ role: 'user', content: 'Hi' }], ...more };
  return (await post(`${url}/v1/chat/completions`, key, body)).text;
}

test.each([400, 404, 422, 500])('an error %d that repeats what was sent', async (status) => {
  const error = { message: asked(), type: 'invalid_request_error', code: 'bad' };
  upstream.play([JSON.stringify({ error })], 'application/json', status);
  const text = await told();
  expect(text).not.toMatch(/very-secret/);
  // The words that are no secret say what is wrong.
  if (status < 500) expect(text).toContain('2026-01-01');
});

test('an error inside a stream that repeats what was sent', async () => {
  const begun = { choices: [{ index: 0, delta: { content: 'a' } }] };
  const failed = { error: { message: asked(), code: 500 } };
  const events = [begun, failed].map((one) => `data: ${JSON.stringify(one)}\n\n`);
  upstream.play(events, 'text/event-stream');
  expect(await told({ stream: true })).not.toMatch(/very-secret/);
});
