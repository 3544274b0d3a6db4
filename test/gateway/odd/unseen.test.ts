import { chat, message } from '../../support/gateway';
import { answerOf, openPriced, type Priced } from '../families/priced';

// Input that the provider adds, which no estimate sees.

let priced: Priced;
let base: string;
let anth: string;
beforeAll(async () => {
  priced = await openPriced();
  base = await priced.urlOf('openai');
  anth = await priced.urlOf('anthropic');
});
afterAll(() => priced.close());
const c = (prompt: number) => ({
  choices: [{ index: 0, message: { role: 'assistant', content: 'Hi' }, finish_reason: 'stop' }],
  usage: { prompt_tokens: prompt, completion_tokens: 10, total_tokens: prompt + 10 },
});
const m = (input: number) => ({
  id: 'm',
  type: 'message',
  role: 'assistant',
  content: [{ type: 'text', text: 'Hi' }],
  stop_reason: 'end_turn',
  usage: { input_tokens: input, output_tokens: 10 },
});
test('remote picture of a chat: what it costs is charged', async () => {
  const body = chat('', {
    model: 'plain',
    messages: [
      {
        role: 'user',
        content: [{ type: 'image_url', image_url: { url: 'https://x.example/a.png' } }],
      },
    ],
  });
  expect(await priced.chargeOf(`${base}/v1/chat/completions`, body, c(36_835))).toBeCloseTo(
    0.36835 + 0.0004,
    6,
  );
});
test('ten pictures in the body, as gpt-4o-mini counts them', async () => {
  const url = `data:image/png;base64,${'A'.repeat(40_000)}`;
  const body = chat('', {
    model: 'plain',
    messages: [
      {
        role: 'user',
        content: Array.from({ length: 10 }, () => ({ type: 'image_url', image_url: { url } })),
      },
    ],
  });
  expect(await priced.chargeOf(`${base}/v1/chat/completions`, body, c(255_010))).toBeCloseTo(
    2.5501 + 0.0004,
    6,
  );
});
test('search of a chat brings input', async () => {
  const body = chat('Hello', { model: 's', web_search_options: {} });
  expect(await priced.chargeOf(`${base}/v1/chat/completions`, body, c(30_000))).toBeCloseTo(
    0.3 + 0.0004 + 0.01,
    6,
  );
});
test('remote picture of a response', async () => {
  const body = {
    model: 'plain',
    max_output_tokens: 64,
    input: [
      { role: 'user', content: [{ type: 'input_image', image_url: 'https://x.example/a.png' }] },
    ],
  };
  expect(
    await priced.chargeOf(
      `${base}/v1/responses`,
      body,
      answerOf({ usage: { input_tokens: 36_835, output_tokens: 10, total_tokens: 36_845 } }),
    ),
  ).toBeCloseTo(0.36875, 6);
});
test('remote picture of a message', async () => {
  const body = message('', {
    model: 'plain',
    messages: [
      {
        role: 'user',
        content: [{ type: 'image', source: { type: 'url', url: 'https://x.example/a.png' } }],
      },
    ],
  });
  expect(await priced.chargeOf(`${anth}/v1/messages`, body, m(36_835))).toBeCloseTo(0.36875, 6);
});
test('unified: remote document', async () => {
  const both = await priced.urlOf('anthropic');
  const body = chat('', {
    model: 'plain',
    messages: [
      { role: 'user', content: [{ type: 'file', file: { file_data: 'https://x.example/a.pdf' } }] },
    ],
  });
  expect(await priced.chargeOf(`${both}/v1/unified/chat/completions`, body, m(60_000))).toBeCloseTo(
    0.6004,
    6,
  );
});
test('message: tools that the provider runs', async () => {
  const body = message('x', {
    model: 'plain',
    tools: [{ type: 'web_fetch_20250910', name: 'web_fetch' }],
  });
  expect(await priced.chargeOf(`${anth}/v1/messages`, body, m(60_000))).toBeCloseTo(0.6004, 6);
});
