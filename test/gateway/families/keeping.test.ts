import { chatKeeping, messageKeeping, responseKeeping } from '../../../gateway/families/stored';

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
