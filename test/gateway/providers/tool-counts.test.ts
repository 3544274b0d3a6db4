import { post } from '../../support/gateway';
import { makePrice } from '../../support/ledger';
import { answerOf, openPriced, type Priced, told } from '../families/priced';

// xAI bills each run of its tools, and says in the usage how many there were.

let priced: Priced;
let url: string;

beforeAll(async () => {
  priced = await openPriced();
  const plain = { input_per_1m: 10, output_per_1m: 40 };
  const tools = { per_container: 0.005, per_web_search: 0.005, per_file_search: 0.01 };
  for (const [model, more] of Object.entries({ plain, tools: { ...plain, ...tools } }))
    await makePrice(priced.world.api.db, { provider: 'xai', model, ...more });
  const auth = { key_env: 'TEST_MODELS_KEY' };
  const models = ['plain', 'tools'];
  const targets = [{ id: 'x', kind: 'xai', base_url: priced.scripted.url, auth, models }];
  url = (await priced.world.openGateway({ settings: { providers: { targets } } })).url;
});

afterAll(() => priced.close());

const call = (type: string, n: number, more: object = {}) => ({
  id: `${type}_${n}`,
  type,
  status: 'completed',
  ...more,
});
const three = (type: string, more?: object) => [1, 2, 3].map((n) => call(type, n, more));
const opened = { action: { type: 'open_page', url: 'x' } };
const counted = (details: object) => ({
  usage: { ...told, server_side_tool_usage_details: details },
});
const file = { type: 'input_file', file_url: 'https://example.com/report.pdf' };
const attached = [{ role: 'user', content: [{ type: 'input_text', text: 'What?' }, file] }];

test.each<[string, object, Record<string, unknown>, number]>([
  [
    'runs of code, by their number',
    { tools: [{ type: 'code_interpreter' }] },
    counted({ code_interpreter_calls: 3 }),
    0.029,
  ],
  [
    'runs of code that are not counted, one by one',
    { tools: [{ type: 'code_interpreter' }] },
    { output: three('code_interpreter_call') },
    0.029,
  ],
  [
    'pages that were opened, as its number counts them',
    { tools: [{ type: 'web_search' }] },
    { output: three('web_search_call', opened), ...counted({ web_search_calls: 3 }) },
    0.029,
  ],
  [
    'searches of which its number knows none',
    { tools: [{ type: 'web_search' }] },
    { output: three('web_search_call'), ...counted({ web_search_calls: 0 }) },
    0.014,
  ],
  [
    'searches of files and of attached ones',
    { tools: [{ type: 'file_search' }] },
    counted({ file_search_calls: 1, document_search_calls: 2 }),
    0.044,
  ],
  [
    'searches of a file that the request attaches',
    { input: attached },
    { output: three('file_search_call') },
    0.044,
  ],
])('%s are charged', async (_, request, answer, cost) => {
  const body = { model: 'tools', input: 'Hi', ...request };
  const charged = await priced.chargeOf(`${url}/v1/responses`, body, answerOf(answer));
  expect(charged).toBeCloseTo(cost, 9);
});

test('the number in the last event of a stream is charged', async () => {
  const frame = (one: { type: string }) => `event: ${one.type}\ndata: ${JSON.stringify(one)}\n\n`;
  const text = { type: 'response.output_text.delta', output_index: 0, delta: 'Yes.' };
  const response = answerOf(counted({ web_search_calls: 2 }));
  const body = { model: 'tools', input: 'Hi', stream: true, tools: [{ type: 'web_search' }] };
  const frames = [frame(text), frame({ type: 'response.completed', response } as never)];
  expect(await priced.chargeOf(`${url}/v1/responses`, body, frames)).toBeCloseTo(0.024, 9);
});

test('chat is charged by the same number', async () => {
  const messages = [{ role: 'user', content: 'Hi' }];
  const usage = { prompt_tokens: 1_000, completion_tokens: 100, total_tokens: 1_100 };
  const answer = {
    choices: [{ index: 0, message: { role: 'assistant', content: 'Yes.' }, finish_reason: 'stop' }],
    usage: { ...usage, server_side_tool_usage_details: { web_search_calls: 2 } },
  };
  const body = { model: 'tools', messages, web_search_options: {} };
  const charged = await priced.chargeOf(`${url}/v1/chat/completions`, body, answer);
  expect(charged).toBeCloseTo(0.024, 9);
});

test.each<[string, string, object]>([
  ['/v1/responses', 'input', { input: attached }],
  ['/v1/responses', 'input', { input: [{ type: 'input_file', file_url: file.file_url }] }],
  [
    '/v1/chat/completions',
    'messages',
    { messages: [{ role: 'user', content: [{ type: 'file', file: { file_data: 'aGk=' } }] }] },
  ],
])(
  '%s with a file in "%s" has no price where searches of files have none',
  async (path, param, more) => {
    const count = async () => (await priced.world.api.db('reservations').count())[0]?.count;
    const before = await count();
    const answer = await post(url + path, priced.world.key, { model: 'plain', ...more });
    expect(answer).toMatchObject({ status: 422 });
    expect(answer.text).toContain(`"param":"${param}"`);
    expect(answer.text).toContain('per_file_search');
    expect(await count()).toBe(before);
  },
);

test('a provider that searches no files unasked takes them without such a price', async () => {
  const address = `${await priced.urlOf('openai')}/v1/responses`;
  const body = { model: 'plain', input: attached };
  expect(await priced.chargeOf(address, body, answerOf({}))).toBe(0.014);
});
