import { AzureOpenAI } from 'openai';
import { gatewayKey, post } from '../../support/gateway';
import { openSold, options, origin, targets, visits, world } from './sold';

// The vendor's own client proves the sandbox, and its addresses are those that the gateway asks.

const apiVersion = '2024-10-21';
const client = () =>
  new AzureOpenAI({
    apiKey: 'azure-key',
    apiVersion,
    endpoint: `${origin}/azure`,
    deployment: 'prod-54',
    maxRetries: 0,
  });
const messages = [{ role: 'user' as const, content: 'Hello' }];

test('the dated form: each family is asked at the address that the client of the vendor asks', async () => {
  options.azure = {
    ...options.azure,
    deployments: new Set(['prod-54', 'my-embeddings', 'my-tts', 'my-whisper']),
  };
  const azure = client();
  const of = (deployment: string) =>
    new AzureOpenAI({
      apiKey: 'azure-key',
      apiVersion,
      endpoint: `${origin}/azure`,
      deployment,
      maxRetries: 0,
    });
  visits.length = 0;
  await azure.chat.completions.create({ model: 'prod-54', messages });
  await azure.responses.create({ model: 'prod-54', input: 'Hello' });
  await of('my-embeddings').embeddings.create({ model: 'my-embeddings', input: 'Hello' });
  await of('my-tts').audio.speech.create({ model: 'my-tts', voice: 'alloy', input: 'Hello' });
  const theirs = visits.map(({ path }) => path);
  expect(theirs).toHaveLength(4);

  const [row] = targets().filter(({ id }) => id === 'az-old');
  const models = ['prod-54', 'my-embeddings', 'my-tts'].map((upstream) => ({
    name: upstream,
    upstream,
    price_as: 'chat',
  }));
  const url = await openSold({}, [{ ...row, models }]);
  const key = await gatewayKey(world.api, world.org.org_id);
  visits.length = 0;
  for (const [route, body] of [
    ['chat/completions', { model: 'prod-54', messages }],
    ['responses', { model: 'prod-54', input: 'Hello' }],
    ['embeddings', { model: 'my-embeddings', input: 'Hello' }],
    ['audio/speech', { model: 'my-tts', voice: 'alloy', input: 'Hello' }],
  ] as const) {
    const { status, text } = await post(`${url}/v1/${route}`, key, body);
    expect([route, status, status === 200 ? '' : text]).toEqual([route, 200, '']);
  }
  expect(visits.map(({ path }) => path)).toEqual(theirs);
});

test('what Azure sends beside an answer passes untouched, and its usage is read', async () => {
  const stream = await client().chat.completions.create({
    model: 'prod-54',
    messages,
    stream: true,
    stream_options: { include_usage: true },
  });
  let usage: unknown;
  for await (const chunk of stream) usage = chunk.usage ?? usage;
  expect(usage).toMatchObject({ total_tokens: expect.any(Number) });
});
