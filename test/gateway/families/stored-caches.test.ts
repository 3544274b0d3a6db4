import { namedIds } from '../../../gateway/families/stored';

// Caches at Google, which a chat names in a member of its own.

const named = (body: object) =>
  namedIds(Buffer.from(JSON.stringify(body))).map(({ kind, id, member }) => [kind, id, member]);

test.each<[object, string, string]>([
  [
    { extra_body: { google: { cached_content: 'cachedContents/c' } } },
    'cachedContents/c',
    'cached_content',
  ],
  [{ extra_body: { google: { cachedContent: 'c' } } }, 'c', 'cachedContent'],
  [{ extra_body: { 'cached-content': 'c' } }, 'c', 'cached-content'],
  [{ cachedContent: 'c' }, 'c', 'cachedContent'],
])('%j names a cache', (body, id, member) => {
  expect(named(body)).toEqual([['cached_content', id, member]]);
});

test.each([
  { extra_body: { google: { thinking_config: { thinking_budget: 800 }, cached_content: null } } },
  { messages: [{ role: 'user', content: [{ type: 'text', text: '{"cached_content":"c"}' }] }] },
  { metadata: { cached_content: 'c' } },
  { tools: [{ function: { name: 'f', parameters: { properties: { cached_content: 'c' } } } }] },
])('%j names none', (body) => {
  expect(named(body)).toEqual([]);
});
