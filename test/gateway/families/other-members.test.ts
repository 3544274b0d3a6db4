import {
  chat,
  completions,
  embeddings,
  messages,
  moderations,
  responses,
  speech,
  unified,
} from '../../../gateway/families/table';

// What no wire describes, a server may read all the same: it is counted before it is paid for.

const messages_said = [{ role: 'user', content: 'Hi' }];
const bodies = {
  chat: [chat, { model: 'm', messages: messages_said }],
  unified: [unified, { model: 'm', messages: messages_said }],
  responses: [responses, { model: 'm', input: 'Hi' }],
  messages: [messages, { model: 'm', max_tokens: 9, messages: messages_said }],
  completions: [completions, { model: 'm', prompt: 'Hi' }],
  embeddings: [embeddings, { model: 'm', input: 'Hi' }],
  moderations: [moderations, { model: 'm', input: 'Hi' }],
  speech: [speech, { model: 'm', voice: 'alloy', input: 'Hi' }],
} as const;
const names = Object.keys(bodies) as (keyof typeof bodies)[];

function lengthOf(name: keyof typeof bodies, more: object): number {
  const [family, body] = bodies[name];
  return family.input({ ...body, ...more }).texts.join('').length;
}

const long = 'word '.repeat(10_000);

test.each(
  names.flatMap((name) => [
    [name, { documents: [{ text: long }] }] as const,
    [name, { chat_template: long }] as const,
    [name, { prompt_embeds: long }] as const,
  ]),
)('%s counts what it does not know: %j', (name, more) => {
  expect(lengthOf(name, more)).toBeGreaterThan(long.length);
});

test.each(names)('%s counts no setting', (name) => {
  const settings = { temperature: 1, metadata: { a: 'b' }, stream: false, seed: null };
  const known = name === 'moderations' || name === 'speech' || name === 'embeddings';
  expect(lengthOf(name, known ? { seed: null } : settings)).toBe(lengthOf(name, {}));
});

test('the schema of an answer is counted on Messages by either name', () => {
  const schema = { type: 'json_schema', schema: { description: long } };
  expect(lengthOf('messages', { output_format: schema })).toBeGreaterThan(long.length);
  expect(lengthOf('messages', { output_config: { format: schema } })).toBeGreaterThan(long.length);
});

test.each(['messages', 'tools', 'functions', 'response_format', 'prediction'])(
  'a legacy completion counts "%s", which is input of chat alone',
  (name) => {
    expect(lengthOf('completions', { [name]: [{ text: long }] })).toBeGreaterThan(long.length);
  },
);
