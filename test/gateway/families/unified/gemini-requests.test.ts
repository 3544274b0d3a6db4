import { unified } from '../../../../gateway/families/table';
import { chatOverGemini } from '../../../../gateway/families/unified/gemini-answer';
import { plain_wire, refusalOf, take } from '../taken';

const hello = [{ role: 'user', content: 'Hello' }];
const contents = [{ role: 'user', parts: [{ text: 'Hello' }] }];

async function said(more: object, model = 'gemini-3.8-flash'): Promise<Record<string, unknown>> {
  const body = { model, messages: hello, ...more };
  return JSON.parse(chatOverGemini.request(await take(body, unified), model, plain_wire));
}

async function refused(more: object, model?: string): Promise<string | null> {
  const { status, error } = await refusalOf(said(more, model) as never);
  expect({ status, code: error.code }).toEqual({ status: 422, code: 'invalid_field' });
  return error.param;
}

const schema = { type: 'object', properties: { a: { type: 'string' } } };
const f = { type: 'function', function: { name: 'f', description: 'F', parameters: schema } };
const declared = [
  { functionDeclarations: [{ name: 'f', description: 'F', parametersJsonSchema: schema }] },
];
const calling = (config: object) => ({
  tools: declared,
  toolConfig: { functionCallingConfig: config },
});

test.each<[object, object]>([
  [{}, {}],
  [{ max_tokens: 7 }, { generationConfig: { maxOutputTokens: 7 } }],
  [{ max_tokens: 9, max_completion_tokens: 7 }, { generationConfig: { maxOutputTokens: 7 } }],
  [{ temperature: 1.7, top_p: 0.5 }, { generationConfig: { temperature: 1.7, topP: 0.5 } }],
  [{ n: 1, seed: 7 }, { generationConfig: { seed: 7 } }],
  [{ n: 3, stop: 'x' }, { generationConfig: { candidateCount: 3, stopSequences: ['x'] } }],
  [
    { frequency_penalty: 0.5, presence_penalty: -1 },
    { generationConfig: { frequencyPenalty: 0.5, presencePenalty: -1 } },
  ],
  [
    { response_format: { type: 'json_object' } },
    { generationConfig: { responseMimeType: 'application/json' } },
  ],
  [
    { response_format: { type: 'json_schema', json_schema: { name: 'x', schema } } },
    { generationConfig: { responseMimeType: 'application/json', responseJsonSchema: schema } },
  ],
  [{ modalities: ['text'] }, {}],
  [
    { modalities: ['text', 'image'] },
    { generationConfig: { responseModalities: ['TEXT', 'IMAGE'] } },
  ],
  [{ reasoning_effort: 'low' }, { generationConfig: { thinkingConfig: { thinkingLevel: 'LOW' } } }],
  [{ service_tier: 'auto' }, {}],
  [{ service_tier: 'default' }, { serviceTier: 'standard' }],
  [{ service_tier: 'flex' }, { serviceTier: 'flex' }],
  [{ user: 'u', store: true, metadata: { a: 'b' }, prompt_cache_key: 'k' }, {}],
  [{ tools: [f] }, { tools: declared }],
  [{ tools: [f], tool_choice: 'auto' }, calling({ mode: 'AUTO' })],
  [{ tools: [f], tool_choice: 'none' }, calling({ mode: 'NONE' })],
  [{ tools: [f], tool_choice: 'required' }, calling({ mode: 'ANY' })],
  [
    { tools: [f], tool_choice: { type: 'function', function: { name: 'f' } } },
    calling({ mode: 'ANY', allowedFunctionNames: ['f'] }),
  ],
  [
    { tools: [{ ...f, function: { ...f.function, strict: true } }] },
    calling({ mode: 'VALIDATED' }),
  ],
  [{ tools: [f], parallel_tool_calls: true }, { tools: declared }],
  [{ parallel_tool_calls: false }, {}],
  [{ parallel_tool_calls: false, tools: [] }, {}],
])('%j is %j there', async (more, there) => {
  expect(await said(more)).toEqual({ contents, ...there });
});

test.each<[string, string, object]>([
  ['none', 'gemini-2.5-flash', { thinkingBudget: 0 }],
  ['medium', 'gemini-2.5-pro', { thinkingBudget: 8_192 }],
  ['high', 'gemini-4-pro', { thinkingLevel: 'HIGH' }],
  ['minimal', 'tuned-one', { thinkingLevel: 'MINIMAL' }],
])('the effort %j of %s is %j', async (reasoning_effort, model, thinkingConfig) => {
  expect(await said({ reasoning_effort }, model)).toMatchObject({
    generationConfig: { thinkingConfig },
  });
});

test.each<[string, object]>([
  ['reasoning_effort', { reasoning_effort: 'none' }],
  ['reasoning_effort', { reasoning_effort: 'xhigh' }],
  ['parallel_tool_calls', { parallel_tool_calls: false, tools: [f] }],
  ['logprobs', { logprobs: true }],
  ['logit_bias', { logit_bias: { 5: 1 } }],
  ['verbosity', { verbosity: 'low' }],
  ['audio', { audio: {} }],
  ['modalities', { modalities: ['audio'] }],
  ['service_tier', { service_tier: 'scale' }],
  ['tool_choice', { tool_choice: 'any' }],
  ['tools[0]', { tools: [{ type: 'custom', custom: { name: 'x' } }] }],
  ['messages', { messages: [{ role: 'tool', tool_call_id: 'a', content: 'x' }] }],
  [
    'messages',
    {
      messages: [
        {
          role: 'user',
          content: [{ type: 'image_url', image_url: { url: 'https://x.example/a.png' } }],
        },
      ],
    },
  ],
])('%s has no word there: %j', async (param, more) => {
  expect(await refused(more)).toBe(param);
});

test('pictures, files and system texts stand where that wire has them', async () => {
  const png = `data:image/png;base64,${Buffer.from('png').toString('base64')}`;
  const pdf = Buffer.from('%PDF-1').toString('base64');
  const messages = [
    { role: 'system', content: 'Be brief.' },
    {
      role: 'user',
      content: [
        { type: 'text', text: 'Look', cache_control: { type: 'ephemeral' } },
        { type: 'image_url', image_url: { url: png } },
        { type: 'file', file: { file_data: pdf } },
      ],
    },
  ];
  expect(await said({ messages })).toEqual({
    systemInstruction: { parts: [{ text: 'Be brief.' }] },
    contents: [
      {
        role: 'user',
        parts: [
          { text: 'Look' },
          { inlineData: { mimeType: 'image/png', data: 'cG5n' } },
          { inlineData: { mimeType: 'application/pdf', data: pdf } },
        ],
      },
    ],
  });
});

const call = (id: string, more = {}) => ({
  id,
  type: 'function',
  function: { name: `f-${id}`, arguments: '{"n": 9007199254740993}' },
  ...more,
});
const signed = { extra_content: { google: { thought_signature: 'c2ln' } } };

/** Two calls whose results have come in the other order. */
const called = [
  ...hello,
  { role: 'assistant', content: 'So', tool_calls: [call('a', signed), call('b:1')] },
  { role: 'tool', tool_call_id: 'b:1', content: 'two' },
  { role: 'tool', tool_call_id: 'a', content: 'one' },
];

test('calls go back with their signatures and digits, results with their names', async () => {
  const text = JSON.stringify({ model: 'gemini-3.8-flash', messages: called });
  const sent = chatOverGemini.request(await take(text, unified), 'gemini-3.8-flash', plain_wire);
  expect(sent).toContain('"args":{"n": 9007199254740993}');
  const { contents: turns } = JSON.parse(sent) as {
    contents: { parts: Record<string, object>[] }[];
  };
  expect(turns[1]?.parts[1]).toMatchObject({ functionCall: { id: 'a' }, thoughtSignature: 'c2ln' });
  expect(turns[1]?.parts[2]).not.toHaveProperty('thoughtSignature');
  expect(turns[2]?.parts).toMatchObject([
    { functionResponse: { id: 'a', name: 'f-a', response: { output: 'one' } } },
    { functionResponse: { name: 'f-b:1', response: { output: 'two' } } },
  ]);
});

test.each(['gemini-2.5-pro', 'gemini-2.0-flash-001', 'endpoints/123'])(
  'calls and results have no ids for %s; results stand in the order of the calls',
  async (model) => {
    const { contents: turns } = (await said({ messages: called }, model)) as {
      contents: { parts: Record<string, object>[] }[];
    };
    expect(JSON.stringify(turns)).not.toContain('"id"');
    expect(turns[2]?.parts).toEqual([
      { functionResponse: { name: 'f-a', response: { output: 'one' } } },
      { functionResponse: { name: 'f-b:1', response: { output: 'two' } } },
    ]);
  },
);

test('that wire takes white space to stop at, and pictures that others do not take', async () => {
  expect(await said({ stop: '\n\n' })).toMatchObject({
    generationConfig: { stopSequences: ['\n\n'] },
  });
  expect(await refused({ stop: ['x', ''] })).toBe('stop');
  const url = (type: string) => ({
    type: 'image_url',
    image_url: { url: `data:${type};base64,anBn` },
  });
  const messages = (type: string) => ({ messages: [{ role: 'user', content: [url(type)] }] });
  expect(await said(messages('image/heic'))).toMatchObject({
    contents: [{ parts: [{ inlineData: { mimeType: 'image/heic', data: 'anBn' } }] }],
  });
  expect(await refused(messages('image/tiff'))).toBe('messages[0].content[0]');
});
