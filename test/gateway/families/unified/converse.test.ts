import { unified } from '../../../../gateway/families/table';
import {
  chatOverConverse,
  converseUsage,
} from '../../../../gateway/families/unified/converse-answer';
import { plain_wire, refusalOf, take } from '../taken';

const hello = [{ role: 'user', content: 'Hello' }];
const messages = [{ role: 'user', content: [{ text: 'Hello' }] }];

async function said(more: object): Promise<Record<string, unknown>> {
  const body = { model: 'nova', messages: hello, ...more };
  return JSON.parse(chatOverConverse.request(await take(body, unified), 'nova', plain_wire));
}

const schema = { type: 'object', properties: { a: { type: 'string' } } };
const f = { type: 'function', function: { name: 'f', description: 'F', parameters: schema } };
const spec = { name: 'f', description: 'F', inputSchema: { json: schema } };
const config = (more: object = {}) => ({ toolConfig: { tools: [{ toolSpec: spec }], ...more } });

test.each<[object, object]>([
  [{}, {}],
  [{ max_tokens: 9, max_completion_tokens: 7 }, { inferenceConfig: { maxTokens: 7 } }],
  [{ temperature: 1.7, top_p: 0.5 }, { inferenceConfig: { temperature: 1, topP: 0.5 } }],
  [{ stop: 'x' }, { inferenceConfig: { stopSequences: ['x'] } }],
  [{ reasoning_effort: 'high' }, { outputConfig: { effort: 'high' } }],
  [
    { response_format: { type: 'json_schema', json_schema: { name: 'x', schema } } },
    {
      outputConfig: {
        textFormat: {
          type: 'json_schema',
          structure: { jsonSchema: { schema: JSON.stringify(schema), name: 'x' } },
        },
      },
    },
  ],
  [{ service_tier: 'auto' }, {}],
  [{ service_tier: 'flex' }, { serviceTier: { type: 'flex' } }],
  [{ user: 'u', seed: 7, n: 1, store: true, logit_bias: {} }, {}],
  [{ tools: [f] }, config()],
  [{ tools: [f], tool_choice: 'auto' }, config({ toolChoice: { auto: {} } })],
  [{ tools: [f], tool_choice: 'required' }, config({ toolChoice: { any: {} } })],
  [{ tools: [f], tool_choice: 'none' }, {}],
  [
    { tools: [f], tool_choice: { type: 'function', function: { name: 'f' } } },
    config({ toolChoice: { tool: { name: 'f' } } }),
  ],
])('%j is %j there', async (more, there) => {
  expect(await said(more)).toEqual({ messages, ...there });
});

const called = [
  ...hello,
  {
    role: 'assistant',
    tool_calls: [
      { id: 'a:1', type: 'function', function: { name: 'f', arguments: '{"n":1e400}' } },
    ],
  },
  { role: 'tool', tool_call_id: 'a:1', content: '' },
];

test.each<[string, object]>([
  ['n', { n: 2 }],
  ['logprobs', { logprobs: true }],
  ['parallel_tool_calls', { parallel_tool_calls: false, tools: [f] }],
  ['response_format', { response_format: { type: 'json_object' } }],
  ['reasoning_effort', { reasoning_effort: 'none' }],
  ['service_tier', { service_tier: 'scale' }],
  ['modalities', { modalities: ['text', 'image'] }],
  ['frequency_penalty', { frequency_penalty: 0.5 }],
  ['tool_choice', { messages: called, tools: [f], tool_choice: 'none' }],
  [
    'messages',
    {
      messages: [
        { role: 'user', content: [{ type: 'image_url', image_url: 'http://x.example/' }] },
      ],
    },
  ],
])('%s has no word there: %j', async (param, more) => {
  const { status, error } = await refusalOf(said(more) as never);
  expect({ status, code: error.code, param: error.param }).toEqual({
    ...{ status: 422, code: 'invalid_field', param },
  });
});

test('pictures, files, caches and calls stand where that wire has them', async () => {
  const picture = `data:image/jpg;base64,${Buffer.from('jpg').toString('base64')}`;
  const pdf = Buffer.from('%PDF-1').toString('base64');
  const body = {
    model: 'nova',
    tools: [f],
    messages: [
      {
        role: 'system',
        content: [{ type: 'text', text: 'Be brief.', cache_control: { type: 'ephemeral' } }],
      },
      {
        role: 'user',
        content: [
          { type: 'text', text: 'Look', cache_control: { type: 'ephemeral', ttl: '1h' } },
          { type: 'image_url', image_url: { url: picture } },
          { type: 'file', file: { file_data: pdf } },
          { type: 'file', file: { file_data: 'data:text/plain,Hi' } },
        ],
      },
      ...called.slice(1),
    ],
  };
  const sent = chatOverConverse.request(await take(body, unified), 'nova', plain_wire);
  // Numbers of any size keep their digits.
  expect(sent).toContain('"input":{"n":1e400}');
  const id = `svc-id-${Buffer.from('a:1', 'utf16le').toString('base64url')}`;
  expect(JSON.parse(sent)).toMatchObject({
    system: [{ text: 'Be brief.' }, { cachePoint: { type: 'default' } }],
    messages: [
      {
        role: 'user',
        content: [
          { text: 'Look' },
          { cachePoint: { type: 'default', ttl: '1h' } },
          { image: { format: 'jpeg', source: { bytes: 'anBn' } } },
          { document: { format: 'pdf', name: 'document-1', source: { bytes: pdf } } },
          { document: { format: 'txt', name: 'document-2', source: { bytes: 'SGk=' } } },
        ],
      },
      { role: 'assistant', content: [{ toolUse: { toolUseId: id, name: 'f' } }] },
      { role: 'user', content: [{ toolResult: { toolUseId: id, content: [{ json: {} }] } }] },
    ],
  });
});

const about = { headers: {}, model: 'nova' };

test('what a whole answer says is told: digits, thoughts, calls, tier', () => {
  const translator = chatOverConverse.open(false, about);
  translator.push(
    Buffer.from(`{"output":{"message":{"role":"assistant","content":[
      {"reasoningContent":{"reasoningText":{"text":"Hm","signature":"s"}}},{"text":"Hi"},
      {"toolUse":{"toolUseId":"t","name":"f","input":{"n":9007199254740993}}}]}},
      "stopReason":"tool_use","serviceTier":{"type":"flex"},
      "usage":{"inputTokens":5,"outputTokens":4,"totalTokens":9}}`),
  );
  expect(JSON.parse(translator.end().toString())).toMatchObject({
    id: expect.stringMatching(/^chatcmpl-./),
    model: 'nova',
    service_tier: 'flex',
    choices: [
      {
        finish_reason: 'tool_calls',
        message: {
          ...{ content: 'Hi', reasoning_content: 'Hm' },
          tool_calls: [{ id: 't', function: { name: 'f', arguments: '{"n":9007199254740993}' } }],
        },
      },
    ],
    usage: { prompt_tokens: 5, completion_tokens: 4, total_tokens: 9 },
  });
});

test('calls of a stream have their parts, and one without a part has no arguments', () => {
  const translator = chatOverConverse.open(true, about);
  const events: [string, object][] = [
    ['messageStart', { role: 'assistant' }],
    ['contentBlockDelta', { contentBlockIndex: 0, delta: { reasoningContent: { text: 'Hm' } } }],
    [
      'contentBlockDelta',
      { contentBlockIndex: 0, delta: { reasoningContent: { signature: 's' } } },
    ],
    [
      'contentBlockStart',
      { contentBlockIndex: 1, start: { toolUse: { toolUseId: 'a', name: 'f' } } },
    ],
    ['contentBlockDelta', { contentBlockIndex: 1, delta: { toolUse: { input: '{"a"' } } }],
    [
      'contentBlockStart',
      { contentBlockIndex: 2, start: { toolUse: { toolUseId: 'b', name: 'g' } } },
    ],
    ['contentBlockDelta', { contentBlockIndex: 1, delta: { toolUse: { input: ':1}' } } }],
    ['contentBlockStop', { contentBlockIndex: 1 }],
    ['messageStop', { stopReason: 'tool_use' }],
    ['metadata', { usage: { inputTokens: 5, outputTokens: 4 } }],
  ];
  const text = events
    .map(([name, data]) => `event: ${name}\ndata: ${JSON.stringify(data)}\n\n`)
    .join('');
  const frames = `${translator.push(Buffer.from(text))}${translator.end()}`.split('\n\n');
  expect(frames.slice(-2)).toEqual(['data: [DONE]', '']);
  const chunks = frames.slice(0, -2).map((frame) => JSON.parse(frame.slice(6)));
  const call = (index: number, text_of: string) => ({
    tool_calls: [{ index, function: { arguments: text_of } }],
  });
  expect(chunks.map(({ choices: [one] }) => one && (one.finish_reason ?? one.delta))).toEqual([
    { role: 'assistant', content: '' },
    { reasoning_content: 'Hm' },
    { tool_calls: [expect.objectContaining({ index: 0, id: 'a' })] },
    call(0, '{"a"'),
    { tool_calls: [expect.objectContaining({ index: 1, id: 'b' })] },
    call(0, ':1}'),
    call(1, '{}'),
    'tool_calls',
    undefined,
  ]);
  expect(chunks.at(-1).usage).toMatchObject({ prompt_tokens: 5, completion_tokens: 4 });
});

test('a stream without its end has none', () => {
  const translator = chatOverConverse.open(true, about);
  translator.push(Buffer.from('event: messageStart\ndata: {"role":"assistant"}\n\n'));
  expect(translator.end()).toHaveLength(0);
});

test('what is no answer of that wire passes as it came', () => {
  for (const text of ['{"message":"no"}', '[]', 'nothing', '{"output":{}}']) {
    const translator = chatOverConverse.open(false, about);
    translator.push(Buffer.from(text));
    expect(translator.end().toString()).toBe(text);
  }
});

test.each<[object, object]>([
  [
    { inputTokens: 10, outputTokens: 5, totalTokens: 15 },
    { prompt_tokens: 10, completion_tokens: 5, cached_tokens: 0, cache_write_tokens: 0 },
  ],
  [
    {
      ...{ inputTokens: 10, outputTokens: 5, cacheReadInputTokens: 900 },
      ...{ cacheWriteInputTokens: 100 },
      cacheDetails: [
        { ttl: '1h', inputTokens: 60 },
        { ttl: '5m', inputTokens: 40 },
      ],
    },
    {
      ...{ prompt_tokens: 1_010, cached_tokens: 900, cache_write_tokens: 40 },
      cache_write_1h_tokens: 60,
    },
  ],
  // Details alone.
  [
    { inputTokens: 1, cacheDetails: [{ ttl: '1h', inputTokens: 60 }] },
    { prompt_tokens: 61, cache_write_tokens: 0, cache_write_1h_tokens: 60 },
  ],
])('the usage %j is %j', (told, usage) => {
  expect(converseUsage(told)).toMatchObject(usage);
});

test('usage that says nothing is none', () => {
  for (const told of [undefined, null, [], {}, { inputTokens: 0 }, { outputTokens: 'x' }])
    expect(converseUsage(told)).toBeUndefined();
});

test.each(['functions.get_weather:0', 'call_'.repeat(20), 'é'.repeat(80)])(
  'the id %s is as long as that wire takes, and the same at a call and its result',
  async (id) => {
    const idsOf = async (...ids: string[]) => {
      const calls = ids.map((one) => ({
        ...{ id: one, type: 'function', function: { name: 'f', arguments: '{}' } },
      }));
      const results = ids.map((tool_call_id) => ({ role: 'tool', tool_call_id, content: 'x' }));
      const asked = [...hello, { role: 'assistant', content: null, tool_calls: calls }, ...results];
      const body = { model: 'nova', messages: asked, tools: [f] };
      const sent = chatOverConverse.request(await take(body, unified), 'nova', plain_wire);
      return [...sent.matchAll(/"toolUseId":"([^"]*)"/g)].map(([, one]) => one as string);
    };
    const [one, two, ...again] = await idsOf(id, `${id}!`);
    expect(again).toEqual([one, two]);
    expect(one).toMatch(/^[\w-]{1,64}$/);
    expect(two).toMatch(/^[\w-]{1,64}$/);
    expect(one).not.toBe(two);
  },
);
