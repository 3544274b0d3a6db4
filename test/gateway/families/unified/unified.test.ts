import OpenAI from 'openai';
import {
  arrivals,
  chat,
  forgetArrivals,
  lastCharge,
  openHolds,
  openWorld,
  post,
  type World,
} from '../../../support/gateway';
import { until } from '../../../support/until';

const path = '/v1/unified/chat/completions';
const claude = 'claude-sonnet-4-5';

let world: World;
let client: OpenAI;

beforeAll(async () => {
  world = await openWorld();
  client = new OpenAI({ baseURL: `${world.url}/v1/unified`, apiKey: world.key, maxRetries: 0 });
});
beforeEach(() => forgetArrivals(world.models_url));
afterAll(() => world.close());

const last = () => lastCharge(world, world.org.org_id);
const user = (content: string) => [{ role: 'user' as const, content }];

function target(id: string, provider: string, shape: string, base_url: string, model: string) {
  return { id, provider, shape, base_url, api_key_env: 'TEST_MODELS_KEY', models: [model] };
}

async function arrived(): Promise<Record<string, unknown>> {
  return (await arrivals(world.models_url)).at(-1)?.body ?? {};
}

test.each(['gpt-4o-mini', claude])(
  '%s answers in the one shape, as JSON and as a stream, with the usage that is charged',
  async (model) => {
    const whole = await client.chat.completions.create({ model, messages: user('Hello there') });
    expect(whole.choices[0]?.message.content).toContain('Hello there');
    expect(whole.choices[0]?.finish_reason).toBe('stop');
    const first = await last();
    expect(first).toMatchObject({ status: 'settled', usage_source: 'upstream' });
    expect(first.usage).toMatchObject({
      prompt_tokens: whole.usage?.prompt_tokens,
      completion_tokens: whole.usage?.completion_tokens,
    });
    const stream = client.chat.completions.stream({
      model,
      messages: user('Hello there'),
      stream_options: { include_usage: true },
    });
    expect(await stream.finalContent()).toBe(whole.choices[0]?.message.content);
    expect((await stream.totalUsage()).total_tokens).toBe(whole.usage?.total_tokens);
    expect((await last()).actual_cost_nanos).toBe(first.actual_cost_nanos);
  },
);

const tools = [
  {
    type: 'function' as const,
    function: {
      name: 'weather',
      description: 'The weather of a city',
      parameters: { type: 'object', properties: { city: { type: 'string' } } },
    },
  },
];

test('a tool is offered, called and answered', async () => {
  const asked = { model: claude, messages: user('The weather?'), tools };
  const { choices } = await client.chat.completions.create({ ...asked, tool_choice: 'required' });
  expect(await arrived()).toMatchObject({
    tools: [{ name: 'weather', input_schema: { type: 'object' } }],
    tool_choice: { type: 'any' },
  });
  const [call] = choices[0]?.message.tool_calls ?? [];
  expect(choices[0]?.finish_reason).toBe('tool_calls');
  expect(call).toMatchObject({ type: 'function', function: { name: 'weather' } });
  expect(JSON.parse(call?.type === 'function' ? call.function.arguments : '')).toEqual(
    expect.any(Object),
  );
  const streamed = client.chat.completions.stream({ ...asked, tool_choice: 'required' });
  const again = await streamed.finalMessage();
  expect(again.tool_calls?.[0]).toMatchObject({ function: { name: 'weather' } });
  const messages = [
    { role: 'system' as const, content: 'Be brief.' },
    ...user('The weather?'),
    choices[0]?.message as OpenAI.ChatCompletionMessage,
    { role: 'tool' as const, tool_call_id: call?.id ?? '', content: 'Sunny' },
    ...user('Thanks'),
  ];
  await client.chat.completions.create({
    model: claude,
    messages,
    tools,
    parallel_tool_calls: false,
  });
  expect(await arrived()).toMatchObject({
    system: [{ type: 'text', text: 'Be brief.' }],
    messages: [
      { role: 'user', content: [{ type: 'text', text: 'The weather?' }] },
      { role: 'assistant', content: [{ type: 'tool_use', id: call?.id, name: 'weather' }] },
      {
        role: 'user',
        content: [
          {
            type: 'tool_result',
            tool_use_id: call?.id,
            content: [{ type: 'text', text: 'Sunny' }],
          },
          { type: 'text', text: 'Thanks' },
        ],
      },
    ],
    tool_choice: { type: 'auto', disable_parallel_tool_use: true },
  });
});

test('parallel calls of tools keep their places in a stream', async () => {
  const two = ['weather', 'time'].map((name) => ({
    type: 'function' as const,
    function: { name },
  }));
  const asked = { model: claude, messages: user('Both?'), tools: two, stream: true };
  const { text } = await post(world.url + path, world.key, { ...asked, tool_choice: 'required' });
  const calls = text
    .split('\n\n')
    .filter((frame) => frame.startsWith('data: {'))
    .map((frame) => JSON.parse(frame.slice(6)))
    .flatMap(({ choices }) => choices[0]?.delta.tool_calls ?? []);
  const begun = calls.filter(({ id }) => id !== undefined);
  expect(begun.map(({ index }) => index)).toEqual(begun.map((_, at) => at));
  for (const { index } of begun) {
    const parts = calls.filter((call) => call.index === index && call.id === undefined);
    expect(JSON.parse(parts.map((part) => part.function.arguments).join('') || '{}')).toEqual(
      expect.any(Object),
    );
  }
});

test('pictures, documents, limits and forms are said in the words of the other wire', async () => {
  const body = {
    model: claude,
    max_completion_tokens: 50,
    temperature: 1.5,
    top_p: 1,
    stop: 'END',
    seed: 7,
    messages: [
      {
        role: 'developer',
        content: [{ type: 'text', text: 'Be brief.', cache_control: { type: 'ephemeral' } }],
      },
      {
        role: 'user',
        content: [
          { type: 'text', text: 'What is this?' },
          { type: 'image_url', image_url: { url: 'data:image/png;base64,aGVsbG8=' } },
          { type: 'image_url', image_url: { url: 'https://pictures.example/a.png' } },
          {
            type: 'file',
            file: { file_data: 'data:application/pdf;base64,aGVsbG8=', filename: 'a.pdf' },
          },
        ],
      },
    ],
    response_format: {
      type: 'json_schema',
      json_schema: { name: 'x', strict: true, schema: { type: 'object' } },
    },
  };
  expect((await post(world.url + path, world.key, body)).status).toBe(200);
  expect(await arrived()).toEqual({
    model: claude,
    max_tokens: 50,
    temperature: 1,
    stop_sequences: ['END'],
    system: [{ type: 'text', text: 'Be brief.', cache_control: { type: 'ephemeral' } }],
    messages: [
      {
        role: 'user',
        content: [
          { type: 'text', text: 'What is this?' },
          { type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'aGVsbG8=' } },
          { type: 'image', source: { type: 'url', url: 'https://pictures.example/a.png' } },
          {
            type: 'document',
            source: { type: 'base64', media_type: 'application/pdf', data: 'aGVsbG8=' },
          },
        ],
      },
    ],
    output_config: { format: { type: 'json_schema', schema: { type: 'object' } } },
  });
});

test.each<[object, string]>([
  [{ n: 2 }, 'n'],
  [{ functions: [{ name: 'x' }] }, 'functions'],
  [{ modalities: ['text', 'audio'] }, 'modalities'],
  [{ tools: [{ type: 'custom', custom: { name: 'x' } }] }, 'tools[0]'],
  [{ response_format: { type: 'json_object' } }, 'response_format'],
  [{ tools: {} }, 'tools'],
  [{ temperature: 'hot' }, 'temperature'],
  [{ stop: 5 }, 'stop'],
  [{ messages: [{ role: 'system', content: 'Be brief.' }] }, 'messages'],
  [{ messages: undefined }, 'messages'],
  [{ messages: null }, 'messages'],
  [{ messages: {} }, 'messages'],
  [{ messages: [] }, 'messages'],
  [{ verbosity: 'low' }, 'verbosity'],
  [{ messages: [{ role: 'user', content: 5 }] }, 'messages[0].content'],
  [{ messages: [{ role: 'user', content: ['Hello'] }] }, 'messages[0].content'],
  [
    { messages: [{ role: 'assistant', content: 'x', tool_calls: 'abc' }] },
    'messages[0].tool_calls',
  ],
  [{ tools, tool_choice: 'constructor' }, 'tool_choice'],
  [
    {
      messages: [
        {
          role: 'assistant',
          tool_calls: [
            {
              id: 'a',
              function: { name: 'x', arguments: `{"a":${'['.repeat(5_000)}${']'.repeat(5_000)}}` },
            },
          ],
        },
      ],
    },
    'messages[0].tool_calls',
  ],
  [
    { messages: [{ role: 'user', content: [{ type: 'input_audio', input_audio: {} }] }] },
    'messages[0].content[0]',
  ],
])('%j has no words on the other wire: 422 names it, nothing is charged', async (more, param) => {
  const body = { model: claude, max_tokens: 64, messages: user('Hello'), ...more };
  const answer = await post(world.url + path, world.key, body);
  expect(answer.status).toBe(422);
  expect(JSON.parse(answer.text).error).toMatchObject({ code: 'invalid_field', param });
  expect(await arrivals(world.models_url)).toEqual([]);
  // The hold of the test before may still be on its way back.
  await until(async () => (await openHolds(world.api, world.org.org_id)) === 0);
});

test('a request that one wire has no words for goes to the other, and holds nothing dearer', async () => {
  const targets = [
    target('one', 'anthropic', 'anthropic', world.models_url, claude),
    target('other', 'openai', 'openai', `${world.models_url}/v1`, 'gpt-4o-mini'),
  ];
  const fallback = { models: { [claude]: ['gpt-4o-mini'] } };
  const { url } = await world.openGateway({ settings: { providers: { targets, fallback } } });
  const body = { model: claude, max_tokens: 64, messages: user('Hello'), n: 2 };
  expect((await post(url + path, world.key, body)).status).toBe(200);
  expect(await arrived()).toMatchObject({ model: 'gpt-4o-mini', n: 2 });
});

test('a stream that is nothing but an error costs nothing', async () => {
  const messages = user('Hello [[fault:error-frame after=0]]');
  for (const model of ['gpt-4o-mini', claude]) {
    const body = { model, max_tokens: 64, stream: true, messages };
    expect((await post(world.url + path, world.key, body)).text).toContain('"error":{');
    expect(await last()).toMatchObject({ actual_cost_nanos: 0n });
  }
});

test('a stream that breaks ends with an error, and what came is charged', async () => {
  const body = { model: claude, max_tokens: 64, stream: true };
  for (const fault of ['cut after=4', 'error-frame after=4']) {
    const messages = user(`Hello there, all of you [[fault:${fault}]]`);
    const { text } = await post(world.url + path, world.key, { ...body, messages });
    expect(text).toContain('"error":{');
    expect(text).not.toContain('[DONE]');
    expect((await last()).actual_cost_nanos).toBeGreaterThan(0n);
  }
});

test('a provider of one shape stands in for one of the other', async () => {
  const targets = [
    target('away', 'openai', 'openai', 'http://127.0.0.1:9/v1', 'gpt-4o'),
    target('here', 'anthropic', 'anthropic', world.models_url, claude),
  ];
  const fallback = { models: { 'gpt-4o': [claude] } };
  const { url } = await world.openGateway({ settings: { providers: { targets, fallback } } });
  const body = chat('Hello there', { model: 'gpt-4o', stream: true });
  expect((await post(url + path, world.key, body)).text).toContain('[DONE]');
  // On the route of one wire alone the other does not serve.
  expect((await post(`${url}/v1/chat/completions`, world.key, body)).status).toBe(502);
});
