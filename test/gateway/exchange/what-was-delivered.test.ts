import { createServer, type Server } from 'node:http';
import { countTokens } from 'gpt-tokenizer/encoding/o200k_base';
import { listen } from '../../../runtime/listen';
import { chat, lastCharge, openWorld, post, type World } from '../../support/gateway';
import { openScripted, type Scripted } from '../../support/upstream';

const path = '/v1/chat/completions';
let world: World;
let upstream: Server;
let url: string;
let scripted: Scripted;
let answer: object;

/**
 * An upstream that says `answer`, as JSON or as the one delta of a stream, and never a word of
 * usage.
 */
function answerWithoutUsage(): Server {
  return createServer((req, res) => {
    const chunks: Buffer[] = [];
    req.on('data', (chunk: Buffer) => chunks.push(chunk));
    req.on('end', () => {
      const { stream } = JSON.parse(Buffer.concat(chunks).toString()) as { stream?: boolean };
      res.setHeader('content-type', stream ? 'text/event-stream' : 'application/json');
      if (!stream) {
        res.end(JSON.stringify({ choices: [{ message: answer, finish_reason: 'stop' }] }));
        return;
      }
      res.write(`data: ${JSON.stringify({ choices: [{ delta: answer }] })}\n\n`);
      res.end(`data: ${JSON.stringify({ choices: [{ delta: {}, finish_reason: 'stop' }] })}\n\n`);
    });
  });
}

beforeAll(async () => {
  world = await openWorld();
  upstream = answerWithoutUsage();
  const target = { base_url: `http://127.0.0.1:${await listen(upstream, 0)}/v1` };
  url = (await world.openGateway({ target })).url + path;
  scripted = await openScripted();
});

afterAll(async () => {
  await world.close();
  upstream.closeAllConnections();
  upstream.close();
  await scripted.close();
});

const text = 'The quick brown fox jumps over the lazy dog. '.repeat(20);
const call = { name: 'look_up', arguments: text };

const deliveries: [string, object, string][] = [
  ['content', { content: text }, text],
  [
    'content in parts',
    {
      content: [
        { type: 'text', text },
        { type: 'refusal', refusal: 'No.' },
      ],
    },
    `${text}No.`,
  ],
  [
    'thinking in parts',
    { content: [{ type: 'thinking', thinking: [{ type: 'text', text }] }] },
    text,
  ],
  ['a refusal', { content: null, refusal: text }, text],
  ['reasoning_content', { reasoning_content: text, content: 'Yes.' }, `${text}Yes.`],
  ['reasoning', { reasoning: text }, text],
  [
    'reasoning under all its names, once',
    { reasoning: text, reasoning_content: text, reasoning_details: [{ text }] },
    text,
  ],
  ['a tool call', { tool_calls: [{ index: 0, id: 'call_1', function: call }] }, `look_up${text}`],
  [
    'a custom tool call',
    { tool_calls: [{ index: 0, custom: { name: 'run', input: text } }] },
    `run${text}`,
  ],
  ['a function call of the older form', { function_call: call }, `look_up${text}`],
  ['the transcript of spoken words', { audio: { id: 'audio_1', transcript: text } }, text],
];

describe.each([{ stream: false }, { stream: true }])('%j', ({ stream }) => {
  test.each(deliveries)(
    'what was delivered is counted where usage never comes: %s',
    async (_, delivered, counted) => {
      answer = { role: 'assistant', ...delivered };
      expect((await post(url, world.key, chat('Hello', { stream }))).status).toBe(200);
      const charge = await lastCharge(world, world.org.org_id);
      expect(charge).toMatchObject({ status: 'settled', usage_source: 'estimated' });
      const expected = countTokens(counted);
      expect(Math.abs((charge.usage.completion_tokens ?? 0) - expected)).toBeLessThanOrEqual(3);
    },
  );

  test('spoken sound is counted where usage never comes, as sound', async () => {
    answer = { role: 'assistant', audio: { data: 'A'.repeat(64_000), transcript: 'Hello.' } };
    expect((await post(url, world.key, chat('Hello', { stream }))).status).toBe(200);
    const { usage, usage_source } = await lastCharge(world, world.org.org_id);
    expect(usage_source).toBe('estimated');
    expect(usage).toMatchObject({ audio_output_tokens: 32, completion_tokens: 34 });
  });
});

const words = 'These are words that nobody can read as an answer. '.repeat(600);

const big = `{"x":"${words.repeat(1_200)}"}`;

test.each<[string, string[], object]>([
  ['no JSON', [words], {}],
  ['JSON that breaks off', [`{"choices":[{"message":{"content":"${words}`], {}],
  ['JSON of something else', [JSON.stringify({ x: words.repeat(40) })], {}],
  ['no JSON, for all its choices', [words], { n: 3 }],
])('what is %s is no answer: 502, and nothing is charged', async (_, pieces, more) => {
  const target = { base_url: `${scripted.url}/v1` };
  const gateway = await world.openGateway({ target });
  scripted.play(pieces, 'application/json');
  const { status, text: told } = await post(gateway.url + path, world.key, chat('Hello', more));
  expect([status, JSON.parse(told).error.code]).toEqual([502, 'upstream_failed']);
  const charge = await lastCharge(world, world.org.org_id);
  expect(charge).toMatchObject({ status: 'released', actual_cost_nanos: 0n });
});

test.each<[string, object, number]>([
  ['too long to be kept', {}, 64],
  ['too long to be kept, by the cap that the hold was made with', { max_tokens: null }, 4_096],
])(
  'what is %s is charged no more than the request allowed, as nobody can say what of it is an answer',
  async (_, more, most) => {
    const gateway = await world.openGateway({ target: { base_url: `${scripted.url}/v1` } });
    scripted.play([big], 'application/json');
    expect((await post(gateway.url + path, world.key, chat('Hello', more))).status).toBe(200);
    const charge = await lastCharge(world, world.org.org_id);
    expect(charge).toMatchObject({ status: 'settled', usage_source: 'estimated' });
    expect(charge.usage.completion_tokens).toBe(most);
    expect(charge.actual_cost_nanos).toBeLessThanOrEqual(charge.held_nanos);
  },
);

const said = { choices: [{ index: 0, delta: { role: 'assistant', content: text } }] };
const overloaded = { type: 'error', error: { type: 'overloaded_error', message: 'Overloaded' } };

test.each<[string, string, object, string[]]>([
  [
    'chat',
    path,
    chat('Hello', { max_tokens: 32_000 }),
    [`data: ${JSON.stringify(said)}\n\n`, 'data: {"error":{"message":"It broke.","code":500}}\n\n'],
  ],
  [
    'chat, by a named event',
    path,
    chat('Hello', { max_tokens: 32_000 }),
    [`data: ${JSON.stringify(said)}\n\n`, `event: error\ndata: ${JSON.stringify(overloaded)}\n\n`],
  ],
  [
    'responses',
    '/v1/responses',
    { input: 'Hello', max_output_tokens: 32_000 },
    [
      `data: ${JSON.stringify({ type: 'response.output_text.delta', delta: text })}\n\n`,
      'data: {"type":"response.failed","response":{"status":"failed","error":{"code":"server_error","message":"It broke."}}}\n\n',
    ],
  ],
])(
  'a stream of a model that reasons, which its provider fails, costs what was delivered: %s',
  async (_, route, body, pieces) => {
    const gateway = await world.openGateway({ target: { base_url: `${scripted.url}/v1` } });
    scripted.play(pieces);
    const asked = { ...body, model: 'o4-mini', stream: true };
    expect((await post(gateway.url + route, world.key, asked)).status).toBe(200);
    const { usage, ...charge } = await lastCharge(world, world.org.org_id);
    expect(charge).toMatchObject({ outcome: 'failed', usage_source: 'estimated' });
    expect(Math.abs((usage.completion_tokens ?? 0) - countTokens(text))).toBeLessThanOrEqual(3);
    expect(charge.actual_cost_nanos).toBeLessThan(charge.held_nanos / 10n);
  },
);
