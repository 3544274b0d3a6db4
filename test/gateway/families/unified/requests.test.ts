import { unified } from '../../../../gateway/families/table';
import { chatOverMessages } from '../../../../gateway/families/unified/messages';
import { plain_wire, refusalOf, take } from '../taken';

const claude = 'claude-sonnet-4-5';
const hello = [{ role: 'user', content: 'Hello' }];

/** The text that goes to a provider of the other wire. */
async function sent(more: object | string): Promise<string> {
  const body = typeof more === 'string' ? more : { model: claude, messages: hello, ...more };
  return chatOverMessages.request(await take(body, unified), claude, plain_wire);
}

async function said(more: object): Promise<Record<string, unknown>> {
  return JSON.parse(await sent(more));
}

async function refused(more: object): Promise<string | null> {
  const { status, error } = await refusalOf(sent(more) as never);
  expect({ status, code: error.code }).toEqual({ status: 422, code: 'invalid_field' });
  expect(error.message).toMatch(/\w+ \w+ \w+/);
  return error.param;
}

const tool = (parameters: unknown) => ({
  tools: [{ type: 'function', function: { name: 'x', parameters } }],
});

const png_part = { type: 'image_url', image_url: { url: 'data:image/png;base64,cG5n' } };

test.each<[unknown, object]>([
  [{}, { type: 'object' }],
  [undefined, { type: 'object', properties: {} }],
  [null, { type: 'object', properties: {} }],
  [{ properties: { a: {} } }, { type: 'object', properties: { a: {} } }],
  [{ anyOf: [{ required: ['a'] }] }, { type: 'object', anyOf: [{ required: ['a'] }] }],
  [{ type: null }, { type: 'object' }],
  [{ type: ['object', 'null'] }, { type: 'object' }],
  [
    { type: 'object', required: ['a'] },
    { type: 'object', required: ['a'] },
  ],
])('parameters %j are the schema of an object', async (parameters, input_schema) => {
  expect(await said(tool(parameters))).toMatchObject({ tools: [{ name: 'x', input_schema }] });
});

test.each([[{ type: 'string' }], [{ type: ['array'] }], ['{}'], [[]], [5]])(
  'parameters %j are none',
  async (parameters) => {
    expect(await refused(tool(parameters))).toBe('tools[0].function.parameters');
  },
);

test('a strict tool stays strict', async () => {
  const tools = [{ type: 'function', function: { name: 'x', strict: true } }];
  expect(await said({ tools })).toMatchObject({ tools: [{ strict: true }] });
});

/** A conversation in which tools were called under these ids. */
function called(ids: unknown[]) {
  const calls = ids.map((id) => ({ id, type: 'function', function: { name: 'x' } }));
  const results = ids.map((id) => ({ role: 'tool', tool_call_id: id, content: 'y' }));
  return { messages: [...hello, { role: 'assistant', tool_calls: calls }, ...results] };
}

async function idsOf(given: unknown[]): Promise<[calls: string[], results: string[]]> {
  const { messages } = (await said(called(given))) as {
    messages: { content: { id: string; tool_use_id: string }[] }[];
  };
  const [, calls, results] = messages;
  return [
    calls?.content.map(({ id }) => id) ?? [],
    results?.content.map(({ tool_use_id }) => tool_use_id) ?? [],
  ];
}

test('ids of calls fit the other wire, alike in call and result, and no two become one', async () => {
  const foreign = [
    'functions.now:0',
    'functions.now:1',
    'functions_now_0',
    'functions-now-0',
    '',
    ' ',
    'é',
    'e\u0301',
    '\ud800',
    '\ud801',
    'call|1',
    'x'.repeat(200),
    '__proto__',
    'a\n',
  ];
  const [first] = await idsOf(foreign);
  // What was made of a foreign id is a foreign id itself, if a client sends it.
  const given = [...foreign, ...first.filter((id) => !foreign.includes(id))];
  const [calls, results] = await idsOf(given);
  expect(results).toEqual(calls);
  expect(new Set(calls).size).toBe(given.length);
  for (const id of calls) expect(id).toMatch(/^[A-Za-z0-9_-]+$/);
  expect(calls.slice(0, foreign.length)).toEqual(first);
});

test('ids of that wire, and of most others, stay as they are', async () => {
  const ids = ['toolu_01A-b', 'call_abc', 'functions_now_0'];
  expect(await idsOf(ids)).toEqual([ids, ids]);
});

test.each([[undefined], [null], [5], [{}]])('a call with the id %j is refused', async (id) => {
  expect(await refused(called([id]))).toBe('messages[1].tool_calls');
  const result = { messages: [...hello, { role: 'tool', tool_call_id: id, content: 'y' }] };
  expect(await refused(result)).toBe('messages[1].tool_call_id');
});

test.each<[object, object]>([
  [{ reasoning_effort: 'low' }, { output_config: { effort: 'low' } }],
  [{ reasoning_effort: 'xhigh' }, { output_config: { effort: 'xhigh' } }],
  [{ reasoning_effort: 'none' }, { thinking: { type: 'disabled' } }],
  [{ reasoning_effort: null }, {}],
  [{ service_tier: 'auto' }, {}],
  [{ service_tier: 'default' }, { service_tier: 'standard_only' }],
  [{ service_tier: null }, {}],
  [{ temperature: 0.2 }, { temperature: 0.2 }],
  [{ temperature: 1.7 }, { temperature: 1 }],
  [{ top_p: 0.5 }, { top_p: 0.5 }],
  [{ temperature: 1, top_p: 0.5 }, { top_p: 0.5 }],
  [{ temperature: 2, top_p: 0.5 }, { top_p: 0.5 }],
  [{ temperature: 0, top_p: 1 }, { temperature: 0 }],
  [{ temperature: null, top_p: null }, {}],
  [{ stop: ['a', 'b'] }, { stop_sequences: ['a', 'b'] }],
  [{ messages: [{ role: 'user', content: ' \n' }, ...hello] }, {}],
])('%j is %j there', async (more, there) => {
  expect(await said(more)).toEqual({
    model: claude,
    max_tokens: 4_096,
    messages: [{ role: 'user', content: [{ type: 'text', text: 'Hello' }] }],
    ...there,
  });
});

test('effort and form stand side by side', async () => {
  const schema = { type: 'object' };
  const response_format = { type: 'json_schema', json_schema: { name: 'x', schema } };
  expect(await said({ response_format, reasoning_effort: 'high' })).toMatchObject({
    output_config: { effort: 'high', format: { type: 'json_schema', schema } },
  });
});

test('an answer begun for the model does not end in white space', async () => {
  const messages = [...hello, { role: 'assistant', content: 'It is \n' }];
  const { messages: turns } = (await said({ messages })) as { messages: object[] };
  expect(turns.at(-1)).toEqual({
    role: 'assistant',
    content: [{ type: 'text', text: 'It is' }],
  });
});

test.each<[object, string]>([
  [{ reasoning_effort: 'minimal' }, 'reasoning_effort'],
  [{ reasoning_effort: 'constructor' }, 'reasoning_effort'],
  [{ reasoning_effort: 5 }, 'reasoning_effort'],
  [{ service_tier: 'flex' }, 'service_tier'],
  [{ service_tier: 'priority' }, 'service_tier'],
  [{ service_tier: 'toString' }, 'service_tier'],
  [{ temperature: 0.5, top_p: 0.5 }, 'top_p'],
  [{ stop: '\n' }, 'stop'],
  [{ stop: ['a', ''] }, 'stop'],
  [{ messages: [...hello, { role: 'assistant', audio: { id: 'a' } }] }, 'messages[1].audio'],
  [
    { messages: [...hello, { role: 'assistant', function_call: { name: 'x' } }] },
    'messages[1].function_call',
  ],
  [
    { messages: [...hello, { role: 'assistant', content: 'x', images: [{ type: 'image_url' }] }] },
    'messages[1].images',
  ],
  [{ messages: [{ role: 'system', content: [png_part] }, ...hello] }, 'messages[0].content'],
  [{ messages: [{ role: 'constructor', content: 'x' }] }, 'messages[0].role'],
])('%j has no word there', async (more, param) => {
  expect(await refused(more)).toBe(param);
});

const big = '{"n": 9007199254740993, "f":1e400,\n"z":-0.10000000000000000001, "d": 1.50}';

test('numbers keep their own text: in arguments, in schemas, in forms', async () => {
  const calls = [{ id: 'a', type: 'function', function: { name: 'x', arguments: big } }];
  const messages = JSON.stringify([...hello, { role: 'assistant', tool_calls: calls }]);
  const text = `{"model":"${claude}","messages":${messages},
    "tools":[{"type":"function","function":{"name":"x","parameters":{"maximum": 18446744073709551615,
      "enum":[-9007199254740993 ,1E999,"9007199254740993"]}}}],
    "response_format":{"type":"json_schema","json_schema":{"name":"y","schema":{"const":9007199254740993}}}}`;
  const there = await sent(text);
  expect(there).toContain(`"input":${big}`);
  expect(there).toContain('"maximum":18446744073709551615');
  expect(there).toContain('"enum":[-9007199254740993,1E999,"9007199254740993"]');
  expect(there).toContain('"const":9007199254740993');
});
