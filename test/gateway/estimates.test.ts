import { completionCap } from '../../gateway/caps';
import { chatInput } from '../../gateway/chat';
import { countTexts } from '../../gateway/tokenizer';
import type { Body } from '../../gateway/usage';

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
  expect(countTexts(texts, 'o200k_base')).toBeGreaterThanOrEqual(1_000);
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
  [{ n: 3 }, 3 * 4_096],
  [{ best_of: 2 }, 2 * 4_096],
])('what may be said in all is held for: %j', (body, cap) => {
  expect(completionCap(body as Body)).toBe(cap);
});
