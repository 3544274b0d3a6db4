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
