import { blankPrice } from '../../../domain/ledger/pricing';
import { chat, lastCharge } from '../../support/gateway';
import { makePrice } from '../../support/ledger';
import {
  ask,
  bad,
  bring,
  keysSeen,
  log,
  makeOwner,
  type Owner,
  PLATFORM,
  secret,
  world,
} from './owners';

// In which order keys are tried, where several models and providers may serve a call.

let url: string;

beforeAll(async () => {
  const { api, models_url } = world;
  const price = { ...blankPrice, tiers: null, input_per_1m: 1, output_per_1m: 1 };
  for (const model of ['gpt-4o', 'gpt-4o-mini'])
    await makePrice(api.db, { ...price, provider: 'second', model });
  const target = { kind: 'compatible', shape: 'openai', base_url: `${models_url}/v1` };
  const auth = { key_env: 'TEST_MODELS_KEY' };
  const targets: object[] = [
    { ...target, id: 'a', provider: 'openai', auth, models: ['gpt-4o-mini'] },
    { ...target, id: 'b', provider: 'second', auth, models: ['gpt-4o'] },
    // Both serve it, and the second nearly always.
    {
      ...target,
      id: 'c',
      provider: 'openai',
      auth,
      models: [{ name: 'both', upstream: 'gpt-4o-mini', price_as: 'gpt-4o-mini' }],
    },
    {
      ...target,
      id: 'd',
      provider: 'second',
      auth,
      weight: 1_000_000,
      models: [{ name: 'both', upstream: 'gpt-4o-mini', price_as: 'gpt-4o-mini' }],
    },
  ];
  // The same of two sellers whose lists call it differently.
  const sold = { name: 'sold', upstream: 'gpt-4o-mini' };
  targets.push(
    {
      ...target,
      id: 's',
      provider: 'openai',
      auth,
      models: [{ ...sold, price_as: 'gpt-4o-mini' }],
    },
    {
      ...{ ...target, id: 't', provider: 'second', auth, weight: 1_000_000 },
      models: [{ ...sold, price_as: 'gpt-4o' }],
    },
  );
  const model = (name: string) => ({ name, upstream: 'gpt-4o-mini', price_as: 'gpt-4o-mini' });
  targets.push(
    // Whatever it is sent it serves, and so do those that know the platform by something else.
    { ...target, id: 'e', provider: 'openai', auth: 'none', models: [model('open')] },
    {
      ...{ ...target, id: 'f', provider: 'openai', auth, models: [model('by-header')] },
      headers: { 'x-portkey-api-key': 'pk' },
    },
    {
      ...{ ...target, id: 'g', provider: 'openai', auth, models: [model('by-query')] },
      query: { access_token: 'pk' },
    },
  );
  const fallback = { retries: 0, models: { 'gpt-4o-mini': ['gpt-4o'] } };
  ({ url } = await world.openGateway({ settings: { providers: { targets, fallback } }, log }));
});

/** What a call is answered, and the keys that it was asked by, each once. */
async function tried(owner: Owner, model = 'gpt-4o-mini') {
  await keysSeen();
  const { status } = await ask(owner, chat('Hello', { model }), url);
  return [status, ...new Set(await keysSeen())];
}

test('after an own key that says only, own keys of other providers are tried, and none of the platform', async () => {
  const key = bad(401, 'order');
  const [alone, both, lenient] = [await makeOwner(), await makeOwner(), await makeOwner()];
  for (const owner of [alone, both]) await bring(owner, { key });
  await bring(both, { provider: 'second', key: secret('second') });
  await bring(lenient, { key, own_keys: 'first' });
  expect(await tried(alone)).toEqual([424, key]);
  expect(await tried(both)).toEqual([200, key, secret('second')]);
  expect(await tried(lenient)).toEqual([200, key, PLATFORM]);
});

test('an own key of a fallback leaves the model that was asked for where it is', async () => {
  const owner = await makeOwner();
  await bring(owner, { provider: 'second', key: secret('fallback') });
  expect(await tried(owner)).toEqual([200, PLATFORM]);
});

test.each(['both', 'sold'])(
  'of the targets of one model the one that an own key opens goes first: %s',
  async (name) => {
    const owner = await makeOwner();
    expect(await tried(owner, name)).toEqual([200, PLATFORM]);
    await bring(owner, { key: secret(`ahead-${name}`) });
    for (let n = 0; n < 3; n += 1)
      expect(await tried(owner, name)).toEqual([200, secret(`ahead-${name}`)]);
  },
);

test.each(['open', 'by-header', 'by-query'])(
  'a server that is opened by something else than a key serves no own one: %s',
  async (model) => {
    const [strict, lenient] = [await makeOwner(), await makeOwner()];
    await bring(strict, { key: secret('no-lock'), price_factor: 0 });
    await bring(lenient, { key: secret('no-lock'), price_factor: 0, own_keys: 'first' });
    expect(await tried(strict, model)).toEqual([424]);
    const [status, ...keys] = await tried(lenient, model);
    expect(keys).not.toContain(secret('no-lock'));
    // The sandbox asks the open one for a key, which it has not.
    if (model === 'open') return expect(status).not.toBe(200);
    expect(status).toBe(200);
    const { actual_cost_nanos } = await lastCharge(world, lenient.org_id);
    expect(actual_cost_nanos).toBeGreaterThan(0n);
  },
);
