import {
  chatKeeping,
  messageKeeping,
  namedIds,
  responseKeeping,
} from '../../../gateway/families/stored';

const named = (body: object | string) =>
  namedIds(Buffer.from(typeof body === 'string' ? body : JSON.stringify(body))).map(
    ({ kind, id, member }) => `${kind} ${id} (${member})`,
  );

const item = (one: object) => ({ model: 'm', input: [{ role: 'user', content: 'Hi' }, one] });
const part = (one: object) => ({ model: 'm', input: [{ role: 'user', content: [one] }] });
const said = (one: object) => ({ model: 'm', messages: [{ role: 'user', content: [one] }] });
const variable = (name: string, value: unknown) => ({
  model: 'm',
  prompt: { id: 'p', variables: { [name]: value } },
});
const file = { type: 'input_file', file_id: 'f' };
const tool = (one: object) => ({ model: 'm', input: 'Hi', tools: [one] });

test.each<[object, string[]]>([
  [{ previous_response_id: 'r' }, ['response r (previous_response_id)']],
  [{ conversation: 'c' }, ['conversation c (conversation)']],
  [{ conversation: { id: 'c' } }, ['conversation c (conversation)']],
  [item({ type: 'item_reference', id: 'i' }), ['item i (input)']],
  [item({ id: 'i' }), ['item i (input)']],
  [item({ type: null, id: 'i', role: null }), ['item i (input)']],
  [item({ type: 'reasoning', id: 'i', summary: [] }), ['item i (input)']],
  [item({ type: 'reasoning', id: 'i', encrypted_content: null }), ['item i (input)']],
  [item({ type: 'reasoning', id: 'i', encrypted_content: '' }), ['item i (input)']],
  [item({ type: 'image_generation_call', id: 'i' }), ['item i (input)']],
  [item({ type: 'file_search_call', id: 'i', results: [] }), ['item i (input)']],
  [part({ type: 'input_file', file_id: 'f' }), ['file f (file_id)']],
  [part({ type: 'input_image', file_id: 'f' }), ['file f (file_id)']],
  [item({ type: 'computer_call_output', output: { file_id: 'f' } }), ['file f (file_id)']],
  [item({ type: 'function_call_output', output: [{ file_id: 'f' }] }), ['file f (file_id)']],
  [
    tool({ type: 'file_search', vector_store_ids: ['v', 'w'] }),
    ['vector_store v (vector_store_ids)', 'vector_store w (vector_store_ids)'],
  ],
  [tool({ type: 'code_interpreter', container: 'c' }), ['container c (container)']],
  [
    tool({ type: 'code_interpreter', container: { type: 'auto', file_ids: ['f'] } }),
    ['file f (file_ids)'],
  ],
  [tool({ type: 'shell', environment: { container_id: 'c' } }), ['container c (container_id)']],
  [tool({ type: 'image_generation', input_image_mask: { file_id: 'f' } }), ['file f (file_id)']],
  [
    { prompt: { id: 'p', variables: { x: { type: 'input_file', file_id: 'f' } } } },
    ['file f (file_id)'],
  ],
  [part({ type: 'input_file', FILE_ID: 'f' }), ['file f (FILE_ID)']],
  [part({ type: 'input_file', fileId: 'f' }), ['file f (fileId)']],
  [tool({ type: 'file_search', vectorStoreIds: ['v'] }), ['vector_store v (vectorStoreIds)']],
  [{ messages: [{ role: 'assistant', Audio: { Id: 'a' } }] }, ['audio a (Audio)']],
  [item({ type: 'web_search_call', id: 'i', status: 'completed' }), ['item i (input)']],
  [item({ type: 'code_interpreter_call', id: 'i' }), ['item i (input)']],
  [item({ type: 'mcp_call', id: 'i' }), ['item i (input)']],
  [item({ type: 'compaction', id: 'i' }), ['item i (input)']],
  [{ container: 'c' }, ['container c (container)']],
  [{ container: { id: 'c', skills: [] } }, ['container c (container)']],
  [{ thread: { type: 'continue', previous_message_id: 'm' } }, ['message m (previous_message_id)']],
  [said({ type: 'document', source: { type: 'file', file_id: 'f' } }), ['file f (file_id)']],
  [said({ type: 'container_upload', file_id: 'f' }), ['file f (file_id)']],
  [said({ type: 'file', file: { file_id: 'f' } }), ['file f (file_id)']],
  [{ messages: [{ role: 'assistant', audio: { id: 'a' } }] }, ['audio a (audio)']],
])('%j names what a provider keeps', (body, expected) => {
  expect(named(body)).toEqual(expected);
});

test.each<[object]>([
  [{ previous_response_id: null, conversation: null, container: null }],
  [{ previous_response_id: '', container: { type: 'auto' } }],
  [{ prompt: { id: 'p' } }],
  [item({ type: 'message', id: 'i', role: 'assistant', content: [] })],
  [item({ id: 'i', role: 'assistant', content: 'Hi' })],
  [item({ type: 'reasoning', id: 'i', encrypted_content: 'sealed' })],
  [item({ type: 'image_generation_call', id: 'i', result: 'aGk=' })],
  [item({ type: 'function_call', id: 'i', call_id: 'c', name: 'x', arguments: '{"file_id":"f"}' })],
  [
    tool({
      type: 'function',
      name: 'x',
      parameters: { properties: { file_id: { type: 'string', default: 'f' } } },
    }),
  ],
  [{ tools: [{ name: 'x', input_schema: { file_id: 'f' }, input_examples: [{ file_id: 'f' }] }] }],
  [{ metadata: { file_id: 'f', previous_response_id: 'r' } }],
  [said({ type: 'tool_use', id: 't', name: 'x', input: { file_id: 'f', container: 'c' } })],
  [{ messages: [{ role: 'tool', tool_call_id: 't', content: 'the file_id is "f"' }] }],
  [{ modalities: ['audio'], audio: { voice: 'alloy', format: 'wav' } }],
  [{ response_format: { json_schema: { schema: { file_id: 'f' } } } }],
])('%j names nothing that a provider keeps', (body) => {
  expect(named(body)).toEqual([]);
});

test.each([
  'x',
  'doc',
  'input',
  'schema',
  'properties',
  'metadata',
  'parameters',
  'input_schema',
  'input_examples',
  'tools',
  'messages',
  'content',
  'response_format',
  'constructor',
  '__proto__',
])('a variable of a prompt that is called %s may be a file', (name) => {
  const text = JSON.stringify(variable('NAME', file)).replace('NAME', name);
  expect(named(text)).toEqual(['file f (file_id)']);
});

test('a text that is a variable of a prompt is no id, whatever the variable is called', () => {
  expect(named(variable('container', 'a ship carries it'))).toEqual([]);
  expect(named(variable('file_id', 'f'))).toEqual([]);
  expect(named({ prompt: { variables: { file_id: 'f' } }, previous_response_id: 'r' })).toEqual([
    'response r (previous_response_id)',
  ]);
});

const result = (one: object) => said({ type: 'tool_result', tool_use_id: 't', content: [one] });

test.each<[object]>([
  [result({ type: 'document', source: { type: 'file', file_id: 'f' } })],
  [result({ type: 'tool_use', input: { file_id: 'f' } })],
  [said({ type: 'tool_result', input: { file_id: 'f' } })],
  [said({ input: { file_id: 'f' } })],
  [said({ input: { deep: [{ file_id: 'f' }] }, type: 'document' })],
  [{ messages: [{ role: 'user', content: { type: 'tool_use', input: { file_id: 'f' } } }] }],
  [{ messages: [{ role: 'user', input: { file_id: 'f' } }] }],
  [part({ type: 'tool_use', input: { file_id: 'f' } })],
  [item({ type: 'function_call_output', output: [{ input: { file_id: 'f' } }] })],
  [item({ role: 'user', content: [{ metadata: { file_id: 'f' } }] })],
  [item({ role: 'user', content: [{ schema: { file_id: 'f' } }] })],
  [tool({ type: 'file_search', properties: { file_id: 'f' } })],
  [{ tools: { parameters: { file_id: 'f' } } }],
  [{ parameters: { file_id: 'f' } }],
  [{ text: { metadata: { file_id: 'f' } } }],
])('in %j a member of another place names a file', (body) => {
  expect(named(body)).toEqual(['file f (file_id)']);
});

const parameters = { type: 'object', properties: { file_id: { default: 'f' } }, file_id: 'f' };

test.each<[object]>([
  [said({ type: 'server_tool_use', id: 't', name: 'x', input: { deep: [{ file_id: 'f' }] } })],
  [said({ input: { file_id: 'f', container: { id: 'c' } }, type: 'mcp_tool_use', name: 'x' })],
  [{ tools: [{ type: 'function', function: { name: 'x', parameters } }] }],
  [{ functions: [{ name: 'x', parameters }] }],
  [tool({ type: 'namespace', name: 'n', tools: [{ type: 'function', parameters }] })],
  [item({ type: 'mcp_list_tools', id: 'i', tools: [{ name: 'x', input_schema: parameters }] })],
  [{ text: { format: { type: 'json_schema', schema: parameters } } }],
  [{ output_format: { type: 'json_schema', schema: parameters } }],
  [{ output_config: { format: { type: 'json_schema', schema: parameters } } }],
])('in %j the author of a tool or of a format gave the names', (body) => {
  expect(named(body)).toEqual([]);
});

test('a block of two types is a use of a tool only if both say so', () => {
  const block = (types: string) =>
    named(`{"messages":[{"content":[{${types},"input":{"file_id":"f"}}]}]}`);
  expect(block('"type":"tool_use","type":"document"')).toEqual(['file f (file_id)']);
  expect(block('"type":"tool_use","type":"server_tool_use"')).toEqual([]);
});

test('both of two members of one name count, and escaped names do', () => {
  expect(named('{"file_id":"a","file_id":"b"}')).toEqual(['file a (file_id)', 'file b (file_id)']);
  expect(named('{"previous_response_id":"a","previous_response_id":null}')).toEqual([
    'response a (previous_response_id)',
  ]);
  expect(named('{"file\\u005fid":"\\u0061"}')).toEqual(['file a (file_id)']);
  expect(named('{"input":[{"type":"message","type":"item_reference","id":"i"}]}')).toEqual([
    'item i (input)',
  ]);
  expect(
    named(
      '{"input":[{"type":"reasoning","id":"i","encrypted_content":"x","encrypted_content":null}]}',
    ),
  ).toEqual(['item i (input)']);
  expect(named('{"input":[{"role":"user","id":"i","role":null}]}')).toEqual(['item i (input)']);
  expect(named('{"input":[{"id":"i","id":"j"}]}')).toEqual(['item i (input)', 'item j (input)']);
});

function kept(keeping: typeof responseKeeping, told: object, request: object = {}): string[] {
  const notes: string[] = [];
  keeping(told as never, request as never, (kind, id) => notes.push(`${kind} ${id}`));
  return notes;
}

const output = [
  { type: 'reasoning', id: 'rs' },
  { type: 'code_interpreter_call', id: 'ci', container_id: 'cntr' },
  {
    type: 'message',
    id: 'msg',
    content: [
      {
        type: 'output_text',
        text: 'x',
        annotations: [{ type: 'container_file_citation', container_id: 'cntr', file_id: 'cfile' }],
      },
    ],
  },
];
const response = { object: 'response', id: 'resp', conversation: { id: 'conv' }, output };
const all = [
  'response resp',
  'conversation conv',
  'item rs',
  'item ci',
  'container cntr',
  'item msg',
  'container cntr',
  'file cfile',
];

test('a response keeps itself, its conversation, items, containers and their files', () => {
  expect(kept(responseKeeping, response)).toEqual(all);
  expect(kept(responseKeeping, { type: 'response.completed', response })).toEqual(all);
  expect(kept(responseKeeping, { type: 'response.output_item.added', item: output[1] })).toEqual([
    'item ci',
    'container cntr',
  ]);
  expect(
    kept(responseKeeping, { type: 'response.output_text.delta', delta: 'x', item_id: 'msg' }),
  ).toEqual([]);
});

test('a response that is not to be stored keeps no more than its work', () => {
  expect(kept(responseKeeping, response, { store: false })).toEqual([
    'conversation conv',
    'item rs',
    'item ci',
    'container cntr',
    'container cntr',
    'file cfile',
  ]);
});

test('a message keeps its container and the files that were written there', () => {
  const result = {
    type: 'bash_code_execution_tool_result',
    content: {
      type: 'bash_code_execution_result',
      content: [{ type: 'bash_code_execution_output', file_id: 'file' }],
    },
  };
  const message = { type: 'message', id: 'msg', container: { id: 'c' }, content: [result] };
  expect(kept(messageKeeping, message)).toEqual(['container c', 'file file']);
  expect(
    kept(messageKeeping, { type: 'message_delta', delta: { container: { id: 'c' } } }),
  ).toEqual(['container c']);
  expect(kept(messageKeeping, { type: 'content_block_start', content_block: result })).toEqual([
    'file file',
  ]);
  // What a model writes for a tool, and what a server of tools answers, is theirs to choose.
  const input = { type: 'tool_use', input: { file_id: 'f', content: [{ file_id: 'f' }] } };
  const told = { type: 'mcp_tool_result', content: { content: [{ file_id: 'f' }] } };
  expect(kept(messageKeeping, { type: 'message', id: 'm', content: [input, told] })).toEqual([]);
});

test.each<[object, string[]]>([
  [{}, []],
  [{ thread: null, diagnostics: null }, []],
  [{ thread: { type: 'create' } }, ['message m']],
  [{ thread: { type: 'continue', previous_message_id: 'l' } }, ['message m']],
  [{ diagnostics: { previous_message_id: null } }, ['message m']],
])('a message that answers %j keeps itself only if a later request may name it', (request, own) => {
  const message = { type: 'message', id: 'm', content: [] };
  expect(kept(messageKeeping, message, request)).toEqual(own);
  expect(kept(messageKeeping, { type: 'message_start', message }, request)).toEqual(own);
});

test('a chat completion keeps what it has spoken if it was asked to speak', () => {
  const spoken = { choices: [{ message: { audio: { id: 'a' } } }] };
  expect(kept(chatKeeping, spoken, { audio: {} })).toEqual(['audio a']);
  expect(
    kept(chatKeeping, { choices: [{ delta: { audio: { id: 'a' } } }] }, { audio: {} }),
  ).toEqual(['audio a']);
  expect(kept(chatKeeping, spoken)).toEqual([]);
});

test.each([
  {},
  { response: null },
  { output: 7 },
  { item: [] },
  { message: 7, content: 'x' },
  { choices: [{ delta: null }] },
])('what is no answer (%j) keeps nothing', (told) => {
  for (const keeping of [responseKeeping, messageKeeping, chatKeeping])
    expect(kept(keeping, told, { audio: {} })).toEqual([]);
});
