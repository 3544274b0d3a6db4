import { unified } from '../../../../gateway/families/table';
import { chatOverConverse } from '../../../../gateway/families/unified/converse-answer';
import { chatOverGemini } from '../../../../gateway/families/unified/gemini-answer';
import { chatOverMessages } from '../../../../gateway/families/unified/messages';
import { plain_wire, take } from '../taken';

const cache_control = { type: 'ephemeral', ttl: '1h' };
const short = { type: 'ephemeral' };
const point = { cachePoint: { type: 'default', ttl: '1h' } };
const short_point = { cachePoint: { type: 'default' } };
const schema = { type: 'object', properties: { cache_control: { type: 'string' } } };
const f = { type: 'function', function: { name: 'f', parameters: schema } };
const g = { type: 'function', function: { name: 'g', parameters: schema } };
const hello = [{ role: 'user', content: 'Hello' }];
const part = { type: 'text', text: 'Hello' };

const claude = 'eu.anthropic.claude-opus-5-5';

async function request(translation: typeof chatOverMessages, more: object, model = claude) {
  const body = { model, messages: hello, ...more };
  return JSON.parse(translation.request(await take(body, unified), model, plain_wire));
}

const overMessages = (more: object) => request(chatOverMessages, more);
const overConverse = (more: object) => request(chatOverConverse, more);

test('a cache that the whole request asks for holds up to its last block', async () => {
  const given = { cache_control, messages: [{ role: 'user', content: [part, part] }] };
  expect(await overMessages(given)).toMatchObject({
    messages: [{ role: 'user', content: [part, { ...part, cache_control }] }],
  });
  expect((await overConverse(given)).messages).toEqual([
    { role: 'user', content: [{ text: 'Hello' }, { text: 'Hello' }, point] },
  ]);
});

test('a last block that says so itself keeps what it says', async () => {
  const content = [{ ...part, cache_control: short }];
  const given = { cache_control, messages: [{ role: 'user', content }] };
  expect((await overMessages(given)).messages).toEqual([{ role: 'user', content }]);
  expect((await overConverse(given)).messages).toEqual([
    { role: 'user', content: [{ text: 'Hello' }, short_point] },
  ]);
});

test('a cache that a message asks for holds up to its last block', async () => {
  const messages = [
    { role: 'system', content: 'Be brief.', cache_control: short },
    { role: 'user', content: 'Hello', cache_control },
    { role: 'assistant', content: 'Hi', cache_control: null },
    { role: 'user', content: 'And?' },
  ];
  expect(await overMessages({ messages })).toMatchObject({
    system: [{ type: 'text', text: 'Be brief.', cache_control: short }],
    messages: [
      { role: 'user', content: [{ ...part, cache_control }] },
      { role: 'assistant', content: [{ type: 'text', text: 'Hi' }] },
      { role: 'user', content: [{ type: 'text', text: 'And?' }] },
    ],
  });
  expect(await overConverse({ messages })).toMatchObject({
    system: [{ text: 'Be brief.' }, short_point],
    messages: [
      { role: 'user', content: [{ text: 'Hello' }, point] },
      { role: 'assistant', content: [{ text: 'Hi' }] },
      { role: 'user', content: [{ text: 'And?' }] },
    ],
  });
});

test.each([
  ['beside its function', [f, { ...g, cache_control }]],
  ['in its function', [f, { ...g, function: { ...g.function, cache_control } }]],
])('a cache that a tool asks for %s holds up to that tool', async (_, tools) => {
  expect((await overMessages({ tools })).tools).toEqual([
    { name: 'f', input_schema: schema },
    { name: 'g', input_schema: schema, cache_control },
  ]);
  expect((await overConverse({ tools })).toolConfig.tools).toEqual([
    { toolSpec: { name: 'f', inputSchema: { json: schema } } },
    { toolSpec: { name: 'g', inputSchema: { json: schema } } },
    point,
  ]);
});

test('a result of a tool has its point behind it', async () => {
  const call = { id: 'a', type: 'function', function: { name: 'f', arguments: '{}' } };
  const messages = [
    ...hello,
    { role: 'assistant', tool_calls: [call] },
    { role: 'tool', tool_call_id: 'a', content: [{ ...part, cache_control }] },
  ];
  const { messages: said } = await overConverse({ messages, tools: [f] });
  expect(said.at(-1).content).toEqual([
    { toolResult: { toolUseId: 'a', content: [{ text: 'Hello' }] } },
    point,
  ]);
});

test('a wire that has no word for a cache gets none', async () => {
  const tools = [{ ...f, cache_control }];
  const messages = [{ role: 'user', content: [{ ...part, cache_control }], cache_control }];
  const given = await request(chatOverGemini, { cache_control, messages, tools });
  expect(given).toEqual(await request(chatOverGemini, { messages: hello, tools: [f] }));
});

const arn = 'arn:aws:bedrock:eu-west-1:123456789012:';

test.each<[model: string, takes: { blocks: boolean; tools: boolean }]>([
  ['anthropic.claude-3-5-sonnet-20241022-v2:0', { blocks: true, tools: true }],
  ['us.anthropic.claude-3-7-sonnet-20250219-v1:0', { blocks: true, tools: true }],
  [`${arn}inference-profile/eu.anthropic.claude-opus-5-5`, { blocks: true, tools: true }],
  [`${arn}application-inference-profile/a1b2c3`, { blocks: true, tools: true }],
  ['amazon.nova-pro-v1:0', { blocks: true, tools: false }],
  ['eu.amazon.nova-2-lite-v1:0', { blocks: true, tools: false }],
  ['anthropic.claude-3-haiku-20240307-v1:0', { blocks: false, tools: false }],
  ['anthropic.claude-3-5-sonnet-20240620-v1:0', { blocks: false, tools: false }],
  ['us.deepseek.r1-v1:0', { blocks: false, tools: false }],
  ['us.meta.llama4-scout-17b-instruct-v1:0', { blocks: false, tools: false }],
  [`${arn}foundation-model/meta.llama3-70b-instruct-v1:0`, { blocks: false, tools: false }],
  [`${arn}inference-profile/us.deepseek.r1-v1:0`, { blocks: false, tools: false }],
])('%s takes points of a cache in %j', async (model, takes) => {
  const messages = [
    { role: 'system', content: 'Be brief.', cache_control: short },
    { role: 'user', content: 'Hello', cache_control: short },
  ];
  const tools = [{ ...f, cache_control: short }];
  const there = await request(chatOverConverse, { cache_control, messages, tools }, model);
  const has = (value: unknown) => JSON.stringify(value).includes('cachePoint');
  expect({ blocks: has(there.messages), tools: has(there.toolConfig) }).toEqual(takes);
  expect(has(there.system)).toBe(takes.blocks);
});
