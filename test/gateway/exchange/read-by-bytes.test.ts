import { chat, lastCharge, post, type TestGateway } from '../../support/gateway';
import { connect } from '../../support/socket';
import { ask, openScriptedGateway, upstream, world } from './scripted';
import { data, delta, finish, named, usage } from './streamed';

// Content types lie: what an answer is, its bytes and its request say. So it is metered, hidden,
// translated and looked at by policies in the same way whatever the type.

const types = [
  'text/event-stream',
  'text/plain',
  'application/octet-stream',
  'application/json',
  'application/x-ndjson',
  '',
];
const sent = data(delta('Hi'), finish(), { id: 'c', choices: [], usage });

describe.each(types)('events as "%s"', (type) => {
  test('of chat are metered, and usage that nobody asked for is hidden', async () => {
    upstream.play([sent, 'data: [DONE]\n\n'], type);
    const { text, headers, charge } = await ask('chat', { stream: true });
    expect(headers['content-type']).toMatch(/^text\/event-stream/);
    expect(text).not.toContain('usage');
    expect(charge).toMatchObject({ usage_source: 'upstream', actual_cost_nanos: 180_000n });
  });

  test('of chat show an error frame where they are cut', async () => {
    upstream.play([data(delta('Hi'))], type);
    const { text } = await ask('chat', { stream: true });
    expect(text).toMatch(/data: \{"error":.*upstream_failed.*\}\n\n$/);
  });

  test('of Messages are metered, and translated for unified', async () => {
    const pieces = [
      named('message_start', { message: { id: 'm', usage: { input_tokens: 1_000 } } }),
      named('content_block_delta', { index: 0, delta: { type: 'text_delta', text: 'Hi' } }),
      named('message_delta', { delta: { stop_reason: 'end_turn' }, usage: { output_tokens: 50 } }),
      named('message_stop'),
    ];
    upstream.play(pieces, type);
    const direct = await ask('messages', { stream: true });
    expect(direct.charge).toMatchObject({
      usage_source: 'upstream',
      actual_cost_nanos: 3_750_000n,
    });
    upstream.play(pieces, type);
    const { text, charge } = await ask('unified', { stream: true });
    expect(text).toContain('"delta":{"content":"Hi"}');
    expect(text).toMatch(/data: \[DONE\]\n\n$/);
    expect(charge).toMatchObject({ usage_source: 'upstream', actual_cost_nanos: 3_750_000n });
  });

  test('byte by byte are the same', async () => {
    upstream.play([...`${sent}data: [DONE]\n\n`], type);
    const { text, charge } = await ask('chat', { stream: true });
    expect(text).not.toContain('usage');
    expect(charge).toMatchObject({ usage_source: 'upstream', actual_cost_nanos: 180_000n });
  });
});

test.each([': a comment first\n\n', '\ufeff', '\r\n\r\n', 'event: x\n', 'retry: 5\n\n', 'id: 1\n'])(
  'events that begin with %j are events',
  async (beginning) => {
    upstream.play([beginning + sent, 'data: [DONE]\n\n'], 'text/plain');
    const { charge } = await ask('chat', { stream: true });
    expect(charge).toMatchObject({ usage_source: 'upstream', actual_cost_nanos: 180_000n });
  },
);

test.each(['text/event-stream', 'text/plain', ''])(
  'a whole answer as "%s" is read as one, also where a stream was asked for',
  async (type) => {
    const message = { role: 'assistant', content: 'Hi' };
    const answer = { id: 'c', choices: [{ index: 0, message, finish_reason: 'stop' }], usage };
    for (const stream of [false, true]) {
      upstream.play([JSON.stringify(answer)], type);
      const { status, text, charge } = await ask('chat', { stream });
      expect([status, JSON.parse(text)]).toEqual([200, answer]);
      expect(charge).toMatchObject({ usage_source: 'upstream', actual_cost_nanos: 180_000n });
    }
  },
);

describe('behind policies', () => {
  let guarded: TestGateway;

  beforeAll(async () => {
    guarded = await openScriptedGateway({
      pack: 'baseline',
      policies: { chain: ['agent-firewall', 'dlp-filter'] },
      policy: {
        'agent-firewall': { tools: { deny: ['get_secret'] } },
        'dlp-filter': { blocked_terms: ['project apollo'], stages: ['output'] },
      },
    });
  });

  const denied = { index: 0, id: 'c1', function: { name: 'get_secret', arguments: '{}' } };
  const calls = { id: 'c', choices: [{ index: 0, delta: { tool_calls: [denied] } }] };

  test.each(['text/plain', 'application/json', ''])(
    'what a policy forbids is found in events as "%s"',
    async (type) => {
      for (const pieces of [
        [data(delta('project ')), data(delta('apollo')), data(finish()), 'data: [DONE]\n\n'],
        [data(calls), data(finish()), 'data: [DONE]\n\n'],
      ]) {
        upstream.play(pieces, type);
        const path = `${guarded.url}/v1/chat/completions`;
        const { status, text } = await post(path, world.key, chat('Hello', { stream: true }));
        expect([status, JSON.parse(text).error.code]).toEqual([409, 'output_blocked']);
        expect((await lastCharge(world, world.org.org_id)).status).toBe('settled');
      }
    },
  );
});

test('a socket sends frames that are JSON, whatever the type of the events', async () => {
  const gateway = await openScriptedGateway({});
  const headers = { authorization: `Bearer ${world.key}` };
  const socket = await connect(`${gateway.url}/v1/responses`, headers);
  const response = { id: 'r', status: 'completed', output: [{ type: 'message' }], usage: told };
  upstream.play([named('response.completed', { response })], 'text/plain');
  socket.send({ type: 'response.create', model: 'gpt-4o-mini', input: 'Hello' });
  const frames = await socket.answer('response.completed');
  expect(frames).toMatchObject([{ type: 'response.completed', response: { id: 'r' } }]);
  socket.ws.close();
});

const told = { input_tokens: 1_000, output_tokens: 50, total_tokens: 1_050 };
