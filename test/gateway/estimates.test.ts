import { countTexts } from '../../gateway/tokenizer';
import { chatInput } from '../../gateway/usage';

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
