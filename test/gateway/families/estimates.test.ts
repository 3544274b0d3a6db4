import { createCounter } from '../../../gateway/counting/counter';
import { completionCap, uncappedChoices } from '../../../gateway/families/caps';
import { chatInput } from '../../../gateway/families/chat';
import { messageInput } from '../../../gateway/families/messages';
import { responseInput } from '../../../gateway/families/responses';
import type { Body } from '../../../gateway/wire/values';

const counter = createCounter();

const words = 'long '.repeat(1_000);
const user = (content: unknown) => [{ role: 'user', content }];

test.each<[string, object[]]>([
  ['a part of unknown type', user([{ type: 'video_url', video_url: { url: words } }])],
  ['a part of no type', user([{ text: words }])],
  ['a text that is an object', user([{ type: 'text', text: { value: words } }])],
  ['a text under another spelling', user([{ type: 'text', Text: words }])],
  ['a part that is a text', user([words])],
  ['a part in a list of its own', user([[{ type: 'text', text: words }]])],
  ['content that is an object', user({ type: 'text', text: words })],
  ['content under another spelling', [{ role: 'user', Content: words }]],
  ['a refusal said before', [{ role: 'assistant', refusal: words }]],
  ['a thought said before', [{ role: 'assistant', content: 'x', reasoning_content: words }]],
  ['a role of many words', [{ role: words, content: 'x' }]],
  ['a name that is an object', [{ role: 'user', content: 'x', name: { words } }]],
])('input of a form that is not known is held for all the same: %s', (_, messages) => {
  const { texts } = chatInput({ messages });
  expect(counter.count(texts, 'o200k_base')).toBeGreaterThanOrEqual(1_000);
});

test.each<[object, number | null]>([
  [{}, null],
  [{ n: 1 }, null],
  [{ max_tokens: 10 }, 10],
  [{ max_tokens: 10, max_completion_tokens: 100 }, 100],
  [{ max_tokens: 100, max_completion_tokens: 10, n: 2 }, 200],
  [{ max_tokens: 10, best_of: 5 }, 50],
  [{ max_tokens: 10, n: 3, best_of: 2 }, 30],
  [{ max_tokens: 2_147_483_647, n: 128 }, 2_147_483_647],
  [{ n: 3 }, null],
  [{ best_of: 2 }, null],
])('what may be said in all is held for: %j', (body, cap) => {
  expect(completionCap(body as Body)).toBe(cap);
});

test.each<[object, number | undefined]>([
  [{}, undefined],
  [{ n: 1, best_of: 1 }, undefined],
  [{ n: null }, undefined],
  [{ n: 3 }, 3],
  [{ n: 2, best_of: 5 }, 5],
  [{ n: 3, best_of: 2, max_tokens: null }, 3],
  [{ n: 128 }, 128],
  [{ n: 3, max_tokens: 10 }, undefined],
  [{ best_of: 3, max_completion_tokens: 10 }, undefined],
])('without a cap what the ledger chooses is held for each choice: %j', (body, choices) => {
  expect(uncappedChoices(body as Body)).toBe(choices);
});

test('what stands behind an address, of whatever type, is unseen and may be large', () => {
  const of = (part: object) => {
    const { unseen, has_foreign } = chatInput({ messages: user([part]) });
    return [unseen, has_foreign];
  };
  const url = 'https://example.com/hour.mp4';
  for (const part of [
    { type: 'video_url', video_url: { url } },
    { type: 'video_url', video_url: url },
    { type: 'audio_url', audio_url: { url: ' HTTPS://example.com/a' } },
    { type: 'other', other: { uri: 'gs://bucket/hour.mp4' } },
    { type: 'other', file_uri: 's3://bucket/a' },
  ])
    expect([part, of(part)]).toEqual([part, [1, true]]);
  for (const part of [
    { type: 'text', text: url },
    { type: 'search_result', url },
    { type: 'video_url', video_url: { url: 'data:video/mp4;base64,AAAA' } },
  ])
    expect([part, of(part)]).toEqual([part, [0, false]]);
});

test('a file in the body is counted by its size, one that only the provider sees as unseen', () => {
  const file = (value: object) => chatInput({ messages: user([{ type: 'file', file: value }]) });
  expect(file({ file_data: 'A'.repeat(4_000) }).tokens).toBeGreaterThanOrEqual(1_000);
  expect(file({ file_data: 'A' }).unseen).toBe(0);
  expect(file({ file_id: 'file_1' }).unseen).toBe(1);
  expect(chatInput({ messages: [{ role: 'assistant', audio: { id: 'a' } }] }).unseen).toBe(1);
});

test.each<[string, object]>([
  ['a picture', { type: 'image', source: { type: 'base64', data: 'A' }, text: words }],
  ['a document', { type: 'document', source: { type: 'text', data: words } }],
  ['a document in parts', { type: 'document', source: { type: 'content', content: words } }],
  ['the result of a tool', { type: 'tool_result', tool_use_id: 'a', content: words }],
  ['a result in parts', { type: 'tool_result', content: [{ type: 'text', text: words }] }],
  ['a part of unknown type', { type: 'other', other: { words } }],
  ['a part named as an object has members', { type: 'constructor', words }],
])('the words of a message are held for, wherever they stand: %s', (_, part) => {
  const { texts } = messageInput({ messages: user([part]) });
  expect(counter.count(texts, 'o200k_base')).toBeGreaterThanOrEqual(1_000);
});

test.each<[string, object]>([
  ['a picture', { type: 'input_image', image_url: 'a', text: words }],
  ['a call', { type: 'function_call', name: 'f', arguments: words }],
  ['what a tool answered', { type: 'function_call_output', output: words }],
  ['a summary', { type: 'reasoning', summary: [{ type: 'summary_text', text: words }] }],
  ['content under another type', { type: 'input_file', role: 'user', content: words }],
])('the words of an item are held for, wherever they stand: %s', (_, item) => {
  const { texts } = responseInput({ input: [item] });
  expect(counter.count(texts, 'o200k_base')).toBeGreaterThanOrEqual(1_000);
});

test('sealed thoughts beside calls of tools are counted as files, all else as text', () => {
  const signature = 'c2ln'.repeat(1_000);
  const callWith = (thought_signature: unknown) => ({
    id: 'a',
    type: 'function',
    function: { name: 'f', arguments: '{}' },
    extra_content: { google: { thought_signature } },
  });
  const counted = (thought_signature: unknown) =>
    chatInput({ messages: [{ role: 'assistant', tool_calls: [callWith(thought_signature)] }] });
  const sealed = counted(signature);
  expect(sealed.texts.join('')).not.toContain(signature);
  expect(sealed.tokens - counted('').tokens).toBe(1_000);
  for (const other of [words, { a: words }, [words]])
    expect(counter.count(counted(other).texts, 'o200k_base')).toBeGreaterThanOrEqual(1_000);
});
