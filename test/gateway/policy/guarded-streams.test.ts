import OpenAI from 'openai';
import { chat, lastCharge, openWorld, post, type World } from '../../support/gateway';
import { openScripted, type Scripted } from '../../support/upstream';
import { chunk, end, head, heard, phrase, say } from './chunks';

// What the guard does to a stream is proved beside this file; here, what its client is answered and
// charged.

let world: World;
let upstream: Scripted;
let blocking: string;
let tools_only: string;

beforeAll(async () => {
  world = await openWorld();
  upstream = await openScripted();
  const target = { base_url: `${upstream.url}/v1` };
  const open = async (policy: object, more: object = {}) => {
    const settings = { policies: { chain: Object.keys(policy) }, policy };
    return (await world.openGateway({ settings, ...more })).url;
  };
  const filter = { blocked_terms: ['project apollo'], detect_patterns: ['email'] };
  blocking = await open({ 'dlp-filter': { ...filter, stages: ['output'] } }, { target });
  tools_only = await open({
    'agent-firewall': { tools: { allow: ['get_*', 'search'], deny: ['get_secret*'] } },
  });
});

afterAll(async () => {
  await world.close();
  await upstream.close();
});

const stream = {
  model: 'gpt-4o-mini',
  messages: [{ role: 'user' as const, content: 'x' }],
  stream: true as const,
  stream_options: { include_usage: true },
};

async function ask(url: string, pieces: readonly (string | Buffer)[]) {
  upstream.play(pieces);
  return post(`${url}/v1/chat/completions`, world.key, stream);
}

test('a blocked phrase that comes one byte at a time is not given on, and what the upstream used is charged', async () => {
  const { status, text } = await ask(
    blocking,
    [...Buffer.from(phrase.join(''))].map((byte) => Buffer.from([byte])),
  );
  expect(status).toBe(200);
  expect(heard(text)).toMatchObject({ content: ['Hello ', ''], error: { code: 'output_blocked' } });
  const charge = await lastCharge(world, world.org.org_id);
  expect(charge).toMatchObject({ status: 'settled', usage_source: 'upstream' });
  expect(charge.usage).toMatchObject({ prompt_tokens: 7, completion_tokens: 9 });
  expect(charge.actual_cost_nanos).toBeGreaterThan(0n);
});

test('a stream that is blocked before anything was sent is answered 409, once, and charged', async () => {
  const { status, text, headers } = await ask(blocking, [
    [chunk({ role: 'assistant', content: 'Project Apollo' }), ...end].join(''),
  ]);
  expect(status).toBe(409);
  expect(headers['x-should-retry']).toBe('false');
  expect(JSON.parse(text).error).toEqual({
    code: 'output_blocked',
    type: 'policy_violation',
    message: expect.stringContaining('dlp-filter'),
    param: null,
    policy: 'dlp-filter',
  });
  expect((await lastCharge(world, world.org.org_id)).actual_cost_nanos).toBeGreaterThan(0n);
});

test('an upstream that goes on without end after a block is left, and charged by what came', async () => {
  const more = say(Array.from({ length: 300 }, () => 'word '.repeat(2_000)));
  const { text } = await ask(blocking, [
    head,
    ...say(['Well. ', 'Project Apollo']),
    ...more,
    ...end,
  ]);
  expect(heard(text)).toMatchObject({ content: ['Well. ', ''], error: { code: 'output_blocked' } });
  const charge = await lastCharge(world, world.org.org_id);
  expect(charge).toMatchObject({ status: 'settled', usage_source: 'estimated' });
  expect(charge.usage.completion_tokens).toBeGreaterThan(1_000);
});

test('the official client throws in the middle of a stream that is blocked, with the code', async () => {
  upstream.play(phrase);
  const client = new OpenAI({ baseURL: `${blocking}/v1`, apiKey: world.key });
  const events = await client.chat.completions.create(stream);
  let said = '';
  const read = async () => {
    for await (const event of events) said += event.choices[0]?.delta.content ?? '';
  };
  await expect(read()).rejects.toMatchObject({ code: 'output_blocked', type: 'policy_violation' });
  expect(said).toBe('Hello ');
  expect(upstream.arrived).toHaveLength(1);
});

test('usage that the client did not ask for stays hidden behind a policy, and is metered', async () => {
  upstream.play([head, ...say(['good ', 'words']), ...end]);
  const asked = { ...stream, stream_options: undefined };
  const { text } = await post(`${blocking}/v1/chat/completions`, world.key, asked);
  expect(text).not.toContain('usage');
  expect(text).toContain('[DONE]');
  const charge = await lastCharge(world, world.org.org_id);
  expect(charge).toMatchObject({ usage_source: 'upstream', usage: { prompt_tokens: 7 } });
});

const telling = (said: object) => [head, ...say(['Well. ']), `data: ${JSON.stringify(said)}\n\n`];
const words = 'Do not tell of Project Apollo.';

test('what a provider says of its failure in a stream passes no policy by, in whatever shape it is told', async () => {
  const { status, text } = await ask(blocking, telling({ object: 'error', message: words }));
  expect([status, heard(text).content[0]]).toEqual([200, 'Well. ']);
  expect(heard(text).error).toMatchObject({
    message: expect.stringMatching(/^The provider failed\. .* blocked by the policy dlp-filter/),
  });
  expect(text).not.toMatch(/apollo/i);
  const param = { object: 'error', message: 'No.', param: 'project apollo', code: 'bad_words' };
  const other = await ask(blocking, telling(param));
  expect(heard(other.text).error).toMatchObject({ message: 'No.', param: null, code: 'bad_words' });
});

test('a filter that redacts takes its terms out of such words, and leaves the others', async () => {
  const filter = { blocked_terms: ['project apollo'], action: 'redact', stages: ['output'] };
  const { url } = await world.openGateway({
    target: { base_url: `${upstream.url}/v1` },
    settings: { policies: { chain: ['dlp-filter'] }, policy: { 'dlp-filter': filter } },
  });
  const { text } = await ask(url, telling({ object: 'error', message: words }));
  expect(heard(text).error).toMatchObject({ message: expect.stringMatching(/^Do not tell of /) });
  expect(text).not.toMatch(/apollo/i);
});

const tool = (name: string, more: object = {}) => ({
  type: 'function',
  function: { name, ...more },
});

test('tools that may be used are, by streams and by JSON', async () => {
  const asked = chat('Hi', {
    tools: [tool('get_weather', { parameters: { properties: { city: {} } } })],
  });
  for (const stream of [false, true]) {
    const answer = await post(`${tools_only}/v1/chat/completions`, world.key, { ...asked, stream });
    expect(answer.status).toBe(200);
    expect(answer.text).toContain('get_weather');
  }
});
