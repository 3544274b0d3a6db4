import { chatOverGemini } from '../../../../gateway/families/unified/gemini-answer';
import { geminiUsage, servedTier } from '../../../../gateway/families/unified/gemini-usage';

const about = { headers: {}, model: 'm' };

test('what a whole answer says is told: digits, thoughts, pictures, calls, choices', () => {
  const translator = chatOverGemini.open(false, about);
  const parts = `[{"text":"Hm","thought":true},{"text":"Hi"},
    {"inlineData":{"mimeType":"image/png","data":"cG5n"}},
    {"functionCall":{"name":"f","args":{"n":9007199254740993}},"thoughtSignature":"c2ln"}]`;
  const text = `{"responseId":"r","modelVersion":"gemini-x","candidates":[
    {"content":{"parts":${parts}},"finishReason":"STOP"},
    {"content":{"parts":[{"text":"B"}]},"finishReason":"MALFORMED_FUNCTION_CALL","index":1}]}`;
  translator.push(Buffer.from(text.slice(0, 60)));
  translator.push(Buffer.from(text.slice(60)));
  const answer = JSON.parse(translator.end().toString());
  expect(answer).toMatchObject({ id: 'r', model: 'gemini-x', object: 'chat.completion' });
  expect(answer.choices).toMatchObject([
    {
      index: 0,
      finish_reason: 'tool_calls',
      message: {
        content: 'Hi',
        reasoning_content: 'Hm',
        images: [{ type: 'image_url', image_url: { url: 'data:image/png;base64,cG5n' } }],
        tool_calls: [
          {
            id: expect.stringMatching(/^call_\w{32}$/),
            function: { name: 'f', arguments: '{"n":9007199254740993}' },
            extra_content: { google: { thought_signature: 'c2ln' } },
          },
        ],
      },
    },
    { index: 1, finish_reason: 'stop', native_finish_reason: 'MALFORMED_FUNCTION_CALL' },
  ]);
});

test('the filter of a cloud is one, and a picture drawn in thought is no answer', () => {
  const translator = chatOverGemini.open(false, about);
  const parts = [
    { thought: true, inlineData: { mimeType: 'image/png', data: 'cG5n' } },
    { inlineData: { mimeType: 'image/png', data: 'cG5nMg==' } },
  ];
  const candidates = [{ index: 3, content: { parts }, finishReason: 'MODEL_ARMOR' }, { index: 0 }];
  translator.push(Buffer.from(JSON.stringify({ candidates })));
  const { choices } = JSON.parse(translator.end().toString());
  expect(choices).toMatchObject([
    { index: 3, finish_reason: 'content_filter', native_finish_reason: 'MODEL_ARMOR' },
    { index: 0 },
  ]);
  expect(choices[0].message.images).toEqual([
    { type: 'image_url', image_url: { url: 'data:image/png;base64,cG5nMg==' } },
  ]);
});

test('choices of a stream each have their role and their end, and then it is over', () => {
  const translator = chatOverGemini.open(true, about);
  const event = (more: object) => `data: ${JSON.stringify(more)}\r\n\r\n`;
  const part = (index: number, text: string, end?: string) => ({
    index,
    content: { parts: [{ text }] },
    ...(end === undefined ? {} : { finishReason: end }),
  });
  const bytes = [
    event({ candidates: [part(0, 'A'), part(1, 'B')], usageMetadata: { promptTokenCount: 5 } }),
    event({ candidates: [part(1, 'b', 'MAX_TOKENS')] }),
    event({ candidates: [part(0, 'a', 'STOP')] }),
    event({ usageMetadata: { promptTokenCount: 5, candidatesTokenCount: 4, totalTokenCount: 9 } }),
  ].map((text) => translator.push(Buffer.from(text)).toString());
  const texts = [...bytes, translator.end().toString()].join('').split('\n\n');
  expect(texts.slice(-2)).toEqual(['data: [DONE]', '']);
  const chunks = texts.slice(0, -2).map((text) => JSON.parse(text.slice(6)));
  expect(
    chunks.map(({ choices: [one] }) => one && [one.index, one.delta, one.finish_reason]),
  ).toEqual([
    [0, { role: 'assistant', content: '' }, null],
    [0, { content: 'A' }, null],
    [1, { role: 'assistant', content: '' }, null],
    [1, { content: 'B' }, null],
    [1, { content: 'b' }, null],
    [1, {}, 'length'],
    [0, { content: 'a' }, null],
    [0, {}, 'stop'],
    undefined,
  ]);
  expect(chunks.at(-1).usage).toMatchObject({ prompt_tokens: 5, completion_tokens: 4 });
});

test('a stream without the end of each choice has no end', () => {
  const translator = chatOverGemini.open(true, about);
  const event = { candidates: [{ content: { parts: [{ text: 'A' }] } }] };
  translator.push(Buffer.from(`data: ${JSON.stringify(event)}\n\n`));
  expect(translator.end()).toHaveLength(0);
});

test('what is no answer of that wire passes as it came', () => {
  const deep = `{"candidates":[{"content":{"parts":[{"functionCall":{"name":"f","args":${'{"a":'.repeat(50_000)}1${'}'.repeat(50_000)}}}]}}]}`;
  const others = ['{"error":{"message":"no"}}', '[]', 'nothing', '{"a":1}'];
  for (const text of [...others, '{"candidates":[null]}', deep]) {
    const translator = chatOverGemini.open(false, about);
    translator.push(Buffer.from(text));
    expect(translator.end().toString()).toBe(text);
  }
});

const detail = (modality: string, tokenCount: number) => ({ modality, tokenCount });

test.each<[object, object]>([
  [
    { promptTokenCount: 100, toolUsePromptTokenCount: 20, candidatesTokenCount: 7 },
    { prompt_tokens: 120, completion_tokens: 7 },
  ],
  [
    {
      promptTokenCount: 100,
      cachedContentTokenCount: 60,
      candidatesTokenCount: 50,
      thoughtsTokenCount: 9,
      promptTokensDetails: [detail('TEXT', 40), detail('AUDIO', 40), detail('IMAGE', 20)],
      cacheTokensDetails: [detail('AUDIO', 30), detail('TEXT', 30)],
      candidatesTokensDetails: [detail('TEXT', 10), detail('IMAGE', 40)],
    },
    {
      prompt_tokens: 100,
      cached_tokens: 60,
      completion_tokens: 59,
      reasoning_tokens: 9,
      audio_input_tokens: 10,
      image_input_tokens: 20,
      image_output_tokens: 40,
    },
  ],
  [
    { promptTokenCount: '10', candidatesTokenCount: 5, thoughtsTokenCount: 2, totalTokenCount: 15 },
    { prompt_tokens: 10, completion_tokens: 5, reasoning_tokens: 2 },
  ],
  [
    { promptTokenCount: 10, candidatesTokenCount: 5, totalTokenCount: 45 },
    { prompt_tokens: 10, completion_tokens: 35, reasoning_tokens: 30 },
  ],
])('the usage %j is %j', (meta, usage) => {
  expect(geminiUsage(meta)).toMatchObject(usage);
});

test('usage that says nothing is none', () => {
  for (const meta of [undefined, null, {}, [], { promptTokenCount: 0 }, { totalTokenCount: 'x' }])
    expect(geminiUsage(meta)).toBeUndefined();
});

test.each<[Record<string, string>, object, string | undefined]>([
  [{ 'x-gemini-service-tier': 'STANDARD' }, {}, 'default'],
  [{ 'x-gemini-service-tier': 'flex' }, { trafficType: 'ON_DEMAND' }, 'flex'],
  [{}, { trafficType: 'ON_DEMAND_PRIORITY' }, 'priority'],
  [{}, { trafficType: 'PROVISIONED_THROUGHPUT' }, 'default'],
  [{ 'x-gemini-service-tier': 'unspecified' }, {}, 'default'],
  [{}, { serviceTier: 'SERVICE_TIER_UNSPECIFIED' }, 'default'],
  [{}, {}, undefined],
])('with the headers %j and the usage %j the tier %s served', (headers, meta, tier) => {
  expect(servedTier(headers, meta)).toBe(tier);
});
