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

// What lies at an address is read by whoever asks the provider: the platform, or its server.

const part = (one: object) => ({ messages: [{ role: 'user', content: [one] }] });
const bucket = 'gs://a-bucket/payroll.png';

test.each<[object, string, string]>([
  [part({ type: 'image_url', image_url: { url: bucket } }), bucket, 'url'],
  [part({ type: 'image_url', image_url: bucket }), bucket, 'image_url'],
  [part({ type: 'video_url', videoUrl: { URL: ' GS://b/v' } }), ' GS://b/v', 'URL'],
  [
    part({ type: 'file', file: { file_data: 'file:///etc/passwd' } }),
    'file:///etc/passwd',
    'file_data',
  ],
  [{ input: [{ role: 'user', content: [{ file_url: 's3://b/f' }] }] }, 's3://b/f', 'file_url'],
  [part({ type: 'document', source: { type: 'url', url: bucket } }), bucket, 'url'],
])('%j names a file', (body, id, member) => {
  expect(named(body)).toEqual([['file', id, member]]);
});

test('an address that escapes hide is one', () => {
  const text = JSON.stringify(part({ image_url: { url: 'X' } }));
  for (const hidden of ['\\u0067s://b/f', 'gs:\\/\\/b\\/f'])
    expect(namedIds(Buffer.from(text.replace('X', hidden)))).toHaveLength(1);
});

test.each([
  part({ type: 'image_url', image_url: { url: 'https://pictures.example/a.png' } }),
  part({ type: 'image_url', image_url: { url: 'data:image/png;base64,aGk=' } }),
  part({ type: 'text', text: 'gs://a-bucket' }),
  { messages: [{ role: 'user', content: 'Is s3://b/f a picture?' }] },
  part({ type: 'tool_use', id: 't', name: 'open', input: { url: 'chrome://settings' } }),
  { tools: [{ function: { name: 'f', parameters: { properties: { url: 'gs://b' } } } }] },
  { metadata: { url: 'gs://b/f' } },
])('%j names no file', (body) => {
  expect(named(body)).toEqual([]);
});
