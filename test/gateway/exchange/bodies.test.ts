import { fitted, takesAsIs } from '../../../gateway/exchange/bodies';
import { kinds } from '../../../gateway/providers/table';

// Names that every object of JavaScript has are names like any other in a body.

const asked = { path: '/messages', model: 'm', is_stream: false, betas: [] };
const names = ['constructor', 'toString', '__proto__', 'hasOwnProperty'];

test.each(names)('a member called %s keeps its name and its value', (name) => {
  const mistral = kinds.get('mistral')?.wires.openai?.({});
  if (mistral === undefined) throw new Error('There is no such wire.');
  const { text } = fitted(`{"${name}":{"a":1},"seed":2}`, mistral, asked);
  expect(text).toBe(`{"${name}":{"a":1},"random_seed":2}`);
});

test.each(names)('within a body that is looked through, %s is looked through too', (name) => {
  const bedrock = kinds.get('bedrock')?.wires.anthropic?.({ region: 'eu-west-1' });
  if (bedrock === undefined) throw new Error('There is no such wire.');
  const inner = '{"cache_control":{"type":"ephemeral","scope":"global"}}';
  const { text, left_out } = fitted(`{"metadata":{"${name}":${inner}}}`, bedrock, asked);
  expect(text).toContain(`"${name}":{"cache_control":{"type":"ephemeral"}}`);
  expect(left_out).toEqual(['cache_control.scope']);
});

function chatWire(kind: string) {
  const place = { resource: 'r', region: 'eu-west-1', project: 'p', location: 'eu' };
  const wire = kinds.get(kind)?.wires.openai?.(place);
  if (wire === undefined) throw new Error('There is no such wire.');
  return wire;
}

const cache_control = { type: 'ephemeral' };
// What a schema, or what is noted, calls so stays.
const schema = { type: 'object', properties: { cache_control: { type: 'string' } } };
const tool = { type: 'function', function: { name: 'f', parameters: schema } };
const plain = {
  model: 'm',
  messages: [{ role: 'user', content: [{ type: 'text', text: 'Say "cache_control".' }] }],
  tools: [tool],
  input: [{ role: 'user', content: [{ type: 'input_text', text: 'Hi' }] }],
};
const cached = {
  ...plain,
  cache_control,
  messages: [
    {
      role: 'user',
      content: [{ type: 'text', text: 'Say "cache_control".', cache_control }],
      cache_control,
    },
  ],
  tools: [{ ...tool, cache_control }],
  input: [{ role: 'user', content: [{ type: 'input_text', text: 'Hi', cache_control }] }],
};

test.each([
  ...['openai', 'azure', 'bedrock', 'vertex', 'gemini', 'mistral', 'groq'],
  ...['deepseek', 'xai', 'together', 'fireworks', 'cohere'],
])('%s, which has no word for a cache, is told of none', (kind) => {
  const wire = chatWire(kind);
  const text = JSON.stringify(cached);
  expect(takesAsIs(wire, Buffer.from(text))).toBe(false);
  const sent = fitted(text, wire, asked);
  expect(JSON.parse(sent.text)).toEqual(plain);
  expect(sent.left_out).toEqual(['cache_control']);
});

test.each(['openrouter', 'vllm', 'ollama', 'lmstudio', 'compatible'])(
  '%s, which may know it, is told of a cache',
  (kind) => {
    const wire = chatWire(kind);
    const text = JSON.stringify(cached);
    const sent = takesAsIs(wire, Buffer.from(text)) ? text : fitted(text, wire, asked).text;
    expect(JSON.parse(sent)).toEqual(cached);
  },
);

test('numbers of a body that is looked through keep their digits, and names of values stay', () => {
  const free = '{"metadata":{"cache_control":"a"},"seed":9007199254740993}';
  expect(fitted(free, chatWire('openai'), asked)).toEqual({ text: free, left_out: [] });
  const given = '{"seed":9007199254740993,"messages":[{"cache_control":{},"content":"a"}]}';
  const { text } = fitted(given, chatWire('openai'), asked);
  expect(text).toBe('{"seed":9007199254740993,"messages":[{"content":"a"}]}');
});
