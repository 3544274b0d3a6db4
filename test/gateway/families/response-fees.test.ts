import { gatewayKey, post } from '../../support/gateway';
import { credit, makeOrg } from '../../support/ledger';
import { answerOf, openPriced, type Priced, told } from './priced';

let priced: Priced;
let url: string;

beforeAll(async () => {
  priced = await openPriced();
  url = await priced.urlOf('openai', 'anthropic');
});

afterAll(() => priced.close());

type Answer = Parameters<typeof answerOf>[0];

function response(request: object, answer: Answer): Promise<number> {
  const body = { model: 's', input: 'Hi', ...request };
  return priced.chargeOf(`${url}/v1/responses`, body, answerOf(answer));
}

const charged = (path: string, body: object, answer: object | string[]) =>
  priced.chargeOf(url + path, body, answer);

const picture = { id: 'ig_1', type: 'image_generation_call', status: 'completed', result: 'x' };
const image_tool = { model: 'pictures', tools: [{ type: 'image_generation' }] };

test('the tokens of pictures that a tool makes stand beside usage, and are charged', async () => {
  const image_gen = { input_tokens: 0, output_tokens: 7_024, total_tokens: 7_024 };
  const answer = { output: [picture], tool_usage: { image_gen } };
  expect(await response(image_tool, answer)).toBe(0.29496);
  expect(
    await response(image_tool, {
      output: [picture],
      tool_usage: { image_gen: { ...image_gen, input_tokens: 100 } },
    }),
  ).toBe(0.29596);
  // One that nobody counted is charged as the largest.
  expect(await response(image_tool, { output: [picture] })).toBe(0.2636);
  expect(await response(image_tool, { output: [{ ...picture, status: 'failed' }] })).toBe(0.014);
  expect(await response(image_tool, {})).toBe(0.014);
});

test('of an answer that is too long to be read, what was held for counts', async () => {
  const huge = { ...picture, result: 'x'.repeat(34_000_000) };
  const image_gen = { input_tokens: 0, output_tokens: 7_024, total_tokens: 7_024 };
  const cost = await response(image_tool, { tool_usage: { image_gen }, output: [huge] });
  expect(cost).toBeGreaterThan(0.24);
});

const search = (more: object = {}) => ({
  id: 'ws_1',
  type: 'web_search_call',
  status: 'completed',
  action: { type: 'search', query: 'x' },
  ...more,
});
const searched = [
  search(),
  search({ id: 'ws_2', action: { type: 'open_page', url: 'x' } }),
  search({ id: 'ws_3', action: { type: 'find_in_page', pattern: 'x' } }),
];
const told_once = { tool_usage: { web_search: { num_requests: 1 } } };
const told_none = { tool_usage: { web_search: { num_requests: 0 } } };
const files = { id: 'fs_1', type: 'file_search_call', status: 'completed', queries: ['a', 'b'] };
const code = (id: string, container_id: string) => ({
  id,
  type: 'code_interpreter_call',
  status: 'completed',
  container_id,
});

test.each<[string, object, Answer, number]>([
  ['of three actions, one a search', {}, { output: searched }, 0.024],
  ["by the provider's own number", {}, { output: searched, ...told_once }, 0.024],
  ["by the provider's own number, none", {}, { output: searched, ...told_none }, 0.014],
  ['a number alone', {}, told_once, 0.024],
  ['that failed', {}, { output: [search({ status: 'failed' })] }, 0.014],
  ['without an action', {}, { output: [search({ action: undefined })] }, 0.024],
  ['twice', {}, { output: [search(), search({ id: 'ws_2' })] }, 0.034],
  ['told twice under one id', {}, { output: [search(), search()] }, 0.024],
  ['without ids', {}, { output: [search({ id: null }), search({ id: null })] }, 0.034],
  ['in files', {}, { output: [files] }, 0.024],
  ['in files, at a price of its own', { model: 'kinds' }, { output: [files] }, 0.0165],
  ['in files, failed', {}, { output: [{ ...files, status: 'failed' }] }, 0.014],
])('searches of a response: %s', async (_, request, answer, cost) => {
  expect(await response(request, answer)).toBe(cost);
});

test('code is charged by the containers that it ran in', async () => {
  const request = {
    model: 'kinds',
    tools: [{ type: 'code_interpreter', container: { type: 'auto' } }],
  };
  const output = [code('a', 'c1'), code('b', 'c1')];
  expect(await response(request, { output })).toBe(0.044);
  expect(await response(request, { output: [...output, code('c', 'c2')] })).toBe(0.074);
  expect(await response(request, {})).toBe(0.014);
});

// OpenAI lists 0.03 USD for a container of 1 GB, 0.12, 0.48 and 1.92 for the larger ones.
test.each([
  ['1g', 0.03],
  ['4g', 0.12],
  ['16g', 0.48],
  ['64g', 1.92],
])('a container of %s costs %d', async (memory_limit, fee) => {
  const shell = {
    id: 'sh_1',
    type: 'shell_call',
    status: 'completed',
    environment: { type: 'container_reference', container_id: 'c2' },
  };
  const coding = { type: 'code_interpreter', container: { type: 'auto', memory_limit } };
  const shelled = { type: 'shell', environment: { type: 'container_auto', memory_limit } };
  const costs = [
    await response({ model: 'kinds', tools: [coding] }, { output: [code('a', 'c1')] }),
    await response({ model: 'kinds', tools: [shelled] }, { output: [shell] }),
  ];
  for (const cost of costs) expect(cost).toBeCloseTo(0.014 + fee, 9);
  // Each container by the size of its own tool.
  const tools = [{ type: 'code_interpreter', container: { type: 'auto' } }, shelled];
  const both = await response({ model: 'kinds', tools }, { output: [code('a', 'c1'), shell] });
  expect(both).toBeCloseTo(0.014 + 0.03 + fee, 9);
  expect(await response({ model: 'kinds', tools: [coding] }, {})).toBe(0.014);
});

test('a wallet that cannot pay for a large container is asked for none', async () => {
  const { world } = priced;
  const org = await makeOrg(world.api.db, {});
  await credit(world.api.db, org.org_id, org.org_wallet, 1_000_000_000n);
  const key = await gatewayKey(world.api, org.org_id);
  const container = { type: 'auto', memory_limit: '64g' };
  const body = { model: 'kinds', input: 'Hi', tools: [{ type: 'code_interpreter', container }] };
  expect(await post(`${url}/v1/responses`, key, body)).toMatchObject({ status: 402 });
});

const event = (one: { type: string; [member: string]: unknown }) =>
  `event: ${one.type}\ndata: ${JSON.stringify(one)}\n\n`;
const begun = [
  event({ type: 'response.created', response: { id: 'resp_1', status: 'in_progress' } }),
  event({ type: 'response.output_item.added', output_index: 0, item: search({ status: 'x' }) }),
  event({ type: 'response.web_search_call.completed', output_index: 0, item_id: 'ws_1' }),
];
const done = event({ type: 'response.output_item.done', output_index: 0, item: search() });
const ended = (response_of: object) =>
  event({ type: 'response.completed', response: { status: 'completed', ...response_of } });
const text = event({ type: 'response.output_text.delta', output_index: 1, delta: 'Yes.' });
const streamed = { model: 's', input: 'Hi', stream: true };
const search_fee = 0.01;

test('a search that was seen in a stream is charged once, also where usage is lost', async () => {
  const whole = ended({ usage: told, output: [search()] });
  expect(await charged('/v1/responses', streamed, [...begun, done, text, whole])).toBe(0.024);
  const lost = ended({ usage: null, output: [search()] });
  const without = await charged('/v1/responses', streamed, [text, ended({ usage: null })]);
  const rounded = (amount: number) => Math.round(amount * 1e9);
  for (const frames of [
    [...begun, done, text, lost],
    [...begun, done, text, ended({ usage: null, output: [] })],
    // It ends after the search.
    [...begun, done, text],
    [...begun, text],
  ]) {
    const cost = await charged('/v1/responses', streamed, frames);
    expect(rounded(cost)).toBe(rounded(without + search_fee));
  }
  // A page that was opened is none, whatever was told before.
  const opened = event({ type: 'response.output_item.done', item: searched[1] });
  const page = [begun[0] as string, opened, text, ended({ usage: told })];
  expect(await charged('/v1/responses', streamed, page)).toBe(0.014);
});
