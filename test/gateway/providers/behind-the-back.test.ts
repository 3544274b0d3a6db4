import { ask, completion, hello, openKind, upstream } from './kinded';

// Members by which a request chooses who serves it, or what is billed beside the model.

test.each<[string, object, string]>([
  ['groq', { compound_custom: { models: { answering_model: 'x' } } }, 'compound_custom'],
  ['groq', { compound_custom: { tools: { enabled_tools: [] } } }, 'compound_custom'],
  ['groq', { search_settings: { country: 'us' } }, 'search_settings'],
  ['groq', { tools: [{ type: 'browser_search' }] }, 'tools'],
  ['together', { safety_model: 'Meta-Llama/Llama-Guard-7b' }, 'safety_model'],
  ['cohere', { connectors: [{ id: 'web-search' }] }, 'connectors'],
  ['xai', { search_parameters: { mode: 'auto' } }, 'search_parameters'],
  ['mistral', { tools: [{ type: 'connector', connector_id: 'x' }] }, 'tools'],
  ['mistral', { tools: [{ type: 'document_library', library_ids: ['x'] }] }, 'tools'],
  ['fireworks', { tools: [{ type: 'python' }] }, 'tools'],
  ['openrouter', { tools: [{ type: 'openrouter:web_search' }] }, 'tools'],
  ['openrouter', { plugins: [{ id: 'web' }] }, 'plugins'],
  ['openrouter', { plugins: [] }, 'plugins'],
  ['openrouter', { preset: 'x' }, 'preset'],
])('%s: %j is refused by name', async (kind, more, param) => {
  const url = await openKind({ kind });
  upstream.play([completion], 'application/json');
  const { status, text } = await ask(url, { ...hello, ...more });
  expect([status, JSON.parse(text)]).toMatchObject([
    422,
    { error: { code: 'invalid_field', param } },
  ]);
  expect(upstream.arrived).toEqual([]);
});

const spoken = (part: object) => ({ messages: [{ role: 'user', content: [part] }] });
const asked = (part: object) => ({
  messages: undefined,
  input: [{ role: 'user', content: [part] }],
});
const pdf = 'https://example.com/a.pdf';
const free_engine = [{ id: 'file-parser', pdf: { engine: 'cloudflare-ai' } }];

test.each<[string, object]>([
  ['/v1/chat/completions', spoken({ type: 'file', file: { filename: 'a.pdf', file_data: pdf } })],
  ['/v1/chat/completions', spoken({ file: { file_data: 'data:application/pdf;base64,aGk=' } })],
  [
    '/v1/chat/completions',
    { ...spoken({ type: 'file', file: { file_data: pdf } }), plugins: null, stream: true },
  ],
  ['/v1/responses', asked({ type: 'input_file', file_url: pdf })],
])(
  'a file to OpenRouter at %s is read by the engine that costs nothing: %j',
  async (path, more) => {
    const url = await openKind({ kind: 'openrouter' });
    upstream.play([completion], 'application/json');
    const { arrived } = await ask(url, { ...hello, ...more }, path);
    expect(arrived?.body.plugins).toEqual(free_engine);
    expect(arrived?.text.match(/"plugins"/g)).toHaveLength(1);
  },
);

test('a body without a file goes to OpenRouter as it is', async () => {
  const url = await openKind({ kind: 'openrouter' });
  upstream.play([completion], 'application/json');
  const { status, arrived } = await ask(url, hello);
  expect([status, arrived?.text]).toEqual([200, JSON.stringify(hello)]);
});
