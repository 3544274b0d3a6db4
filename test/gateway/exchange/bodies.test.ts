import { fitted } from '../../../gateway/exchange/bodies';
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
