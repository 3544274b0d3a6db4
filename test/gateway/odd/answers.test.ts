import { promisify } from 'node:util';
import { gzip, gzipSync } from 'node:zlib';
import { ask, type Name, names, transcribe, upstream } from '../exchange/scripted';
import { data, delta, finish, named } from '../exchange/streamed';

// Whole answers and streams in forms that some providers send.

// Prices: gpt-4o-mini .15/.6, o4-mini 1.1/4.4 reasoning, claude 3/15
const usd = (n: bigint) => Number(n) / 1e9;
const usage = { prompt_tokens: 1000, completion_tokens: 50, total_tokens: 1050 };
const answer = (more: object = {}) => ({
  id: 'c',
  object: 'chat.completion',
  choices: [{ index: 0, message: { role: 'assistant', content: 'Hi' }, finish_reason: 'stop' }],
  usage,
  ...more,
});
const json = (v: unknown, headers: Record<string, string> = {}) =>
  upstream.play(
    [typeof v === 'string' || Buffer.isBuffer(v) ? v : JSON.stringify(v)],
    'application/json',
    200,
    headers,
  );
const done = 'data: [DONE]\n\n';

async function seen(name: Name, more: object = {}) {
  const { status, text, charge } = await ask(name, more as never);
  return {
    status,
    text: text.slice(0, 400),
    cost: usd(charge.actual_cost_nanos),
    held: usd(charge.held_nanos),
    source: charge.usage_source,
    outcome: charge.outcome,
  };
}

test('bom before json', async () => {
  json(`\uFEFF${JSON.stringify(answer())}`);
  expect(await seen('chat')).toMatchObject({ status: 200, cost: 0.00018 });
});
test('blank lines before json, 200 of them', async () => {
  json('\n'.repeat(200) + JSON.stringify(answer()));
  expect(await seen('chat')).toMatchObject({ status: 200, cost: 0.00018 });
});
test('blank lines before events under json type', async () => {
  upstream.play(['\n'.repeat(200), data(delta('Hi'), finish({ usage })), done], 'application/json');
  expect(await seen('chat', { stream: true })).toMatchObject({ status: 200, cost: 0.00018 });
});
test('total first, figures later in a stream', async () => {
  upstream.play([
    data({ ...delta('Hi'), usage: { prompt_tokens: 0, completion_tokens: 0, total_tokens: 12 } }),
    data(finish({ usage })),
    done,
  ]);
  expect(await seen('chat', { stream: true })).toMatchObject({
    status: 200,
    cost: 0.00018,
    source: 'upstream',
  });
});
test('only total first (no other members), figures later', async () => {
  upstream.play([
    data({ ...delta('Hi'), usage: { total_tokens: 1000 } }),
    data(finish({ usage })),
    done,
  ]);
  expect(await seen('chat', { stream: true })).toMatchObject({
    status: 200,
    cost: 0.00018,
    source: 'upstream',
  });
});
test('usage {} on top, x_groq beside', async () => {
  json(answer({ usage: {}, x_groq: { usage } }));
  expect(await seen('chat')).toMatchObject({ cost: 0.00018 });
});
test('usage zero on top, in choices beside (stream)', async () => {
  upstream.play([
    data(delta('Hi')),
    data({
      id: 'c',
      usage: { prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 },
      choices: [{ index: 0, delta: {}, finish_reason: 'stop', usage }],
    }),
    done,
  ]);
  expect(await seen('chat', { stream: true })).toMatchObject({ cost: 0.00018 });
});
test('last usage frame without its blank line, reasoning', async () => {
  upstream.play([
    data(delta('Hi'), finish()),
    `data: ${JSON.stringify({ id: 'c', choices: [], usage })}\n`,
  ]);
  const s = await seen('chat, reasoning', {
    stream: true,
    stream_options: { include_usage: true },
  });
  expect(s).toMatchObject({ cost: 0.00132 });
});
test('hidden usage frame without its blank line is not shown', async () => {
  upstream.play([
    data(delta('Hi'), finish()),
    `data: ${JSON.stringify({ id: 'c', choices: [], usage })}\n`,
  ]);
  const s = await seen('chat', { stream: true });
  expect(s.text).not.toContain('prompt_tokens');
});
test('response.completed without blank line', async () => {
  const response = {
    id: 'r',
    object: 'response',
    status: 'completed',
    output: [{ id: 'm', type: 'message', content: [{ type: 'output_text', text: 'Hi' }] }],
    usage: { input_tokens: 1000, output_tokens: 50, total_tokens: 1050 },
  };
  upstream.play([
    named('response.output_text.delta', { delta: 'Hi' }),
    `event: response.completed\ndata: ${JSON.stringify({ type: 'response.completed', response })}\n`,
  ]);
  expect(await seen('responses', { stream: true })).toMatchObject({
    cost: 0.00018,
    source: 'upstream',
  });
});
test('unified: content null with end_turn', async () => {
  json({
    id: 'm',
    type: 'message',
    role: 'assistant',
    content: null,
    stop_reason: 'end_turn',
    usage: { input_tokens: 1000, output_tokens: 50 },
  });
  expect(await seen('unified')).toMatchObject({ status: 200, cost: 0.00375 });
});
test('unified: content a text', async () => {
  json({
    id: 'm',
    type: 'message',
    role: 'assistant',
    content: 'Hello',
    stop_reason: 'end_turn',
    usage: { input_tokens: 1000, output_tokens: 50 },
  });
  const s = await seen('unified');
  expect(s.status).not.toBe(500);
});
test('unified: content missing, usage told', async () => {
  json({ usage: { input_tokens: 1000, output_tokens: 50 } });
  const s = await seen('unified');
  expect(s.status).not.toBe(500);
});
test('unified: content an object', async () => {
  json({
    type: 'message',
    content: { type: 'text', text: 'x' },
    stop_reason: 'end_turn',
    usage: { input_tokens: 1000, output_tokens: 50 },
  });
  const s = await seen('unified');
  expect(s.status).not.toBe(500);
});
test('unified: untyped error of the client in a stream', async () => {
  upstream.play([
    named('message_start', { message: { id: 'm', usage: { input_tokens: 5, output_tokens: 1 } } }),
    `data: ${JSON.stringify({ error: { type: 'invalid_request_error', message: 'too long for this' } })}\n\n`,
  ]);
  const s = await seen('unified', { stream: true });
  expect(s).toMatchObject({ status: 400, cost: 0 });
  expect(s.text).toContain('too long for this');
});
test('unified: event error with flat words', async () => {
  upstream.play([
    `event: error\ndata: ${JSON.stringify({ type: 'invalid_request_error', message: 'too long for this' })}\n\n`,
  ]);
  const s = await seen('unified', { stream: true });
  expect(s.text).toContain('too long for this');
});
test('chat: event error with flat words', async () => {
  upstream.play([
    `event: error\ndata: ${JSON.stringify({ type: 'invalid_request_error', message: 'too long for this' })}\n\n`,
  ]);
  const s = await seen('chat', { stream: true });
  expect(s).toMatchObject({ status: 400 });
  expect(s.text).toContain('too long for this');
});
test('finish_reason error without words, nothing said, reasoning', async () => {
  json({
    choices: [
      {
        index: 0,
        message: { role: 'assistant', content: '' },
        finish_reason: 'error',
        native_finish_reason: 'error',
      },
    ],
  });
  expect(await seen('chat, reasoning')).toMatchObject({ status: 502, cost: 0 });
});
test('error object of nulls beside an answer', async () => {
  json(answer({ error: { code: null, message: null } }));
  expect(await seen('chat')).toMatchObject({ status: 200, cost: 0.00018 });
});
test('error empty words beside an answer', async () => {
  json(answer({ error: { code: 0, message: '' } }));
  expect(await seen('chat')).toMatchObject({ status: 200, cost: 0.00018 });
});
test('base_resp success text code', async () => {
  json(answer({ base_resp: { status_code: '0', status_msg: 'success' } }));
  expect(await seen('chat')).toMatchObject({ status: 200, cost: 0.00018 });
});
test('base_resp insufficient balance is the account', async () => {
  json({
    id: '',
    choices: null,
    base_resp: { status_code: 1008, status_msg: 'insufficient balance' },
  });
  const s = await seen('chat');
  expect(s.status).toBe(502);
  expect(s.text).not.toContain('insufficient balance');
});
test('pcm that begins with a brace', async () => {
  const sound = Buffer.concat([Buffer.from([0x7b, 0x01, 0xff, 0x10]), Buffer.alloc(20_000, 0x91)]);
  upstream.play([sound], 'audio/pcm');
  expect(await seen('speech', { response_format: 'pcm' })).toMatchObject({ status: 200 });
});
test('pcm that begins with blanks and a bracket', async () => {
  const sound = Buffer.concat([Buffer.from([0x20, 0x20, 0x5b, 0x00]), Buffer.alloc(20_000, 0x91)]);
  upstream.play([sound], 'application/octet-stream');
  expect(await seen('speech', { response_format: 'pcm' })).toMatchObject({ status: 200 });
});
test('speech answered with words in text/plain', async () => {
  upstream.play(['upstream connect error or disconnect/reset before headers'], 'text/plain');
  expect(await seen('speech')).toMatchObject({ status: 502, cost: 0 });
});
test('speech answered with an error event of no type', async () => {
  upstream.play(['event: error\ndata: {"error":{"message":"x","type":"server_error"}}\n\n'], '');
  expect(await seen('speech')).toMatchObject({ status: 502, cost: 0 });
});
test('GZIP in capitals', async () => {
  json(gzipSync(JSON.stringify(answer())), { 'content-encoding': 'GZIP' });
  expect(await seen('chat')).toMatchObject({ status: 200, cost: 0.00018 });
});
test('gzip said, plain sent', async () => {
  json(JSON.stringify(answer()), { 'content-encoding': 'gzip' });
  const s = await seen('chat');
  expect([s.status, s.cost]).toEqual([502, 0]);
});
test('gzip bomb in an error status', async () => {
  // Off this thread: a gateway that stands still for seconds closes what its clients keep open.
  const bomb = await promisify(gzip)(Buffer.alloc(200_000_000, 0x20));
  upstream.play([bomb], 'application/json', 500, {
    'content-encoding': 'gzip',
  });
  expect((await seen('chat')).status).toBeGreaterThanOrEqual(500);
});
test('transcription text with html', async () => {
  upstream.play(['  <!DOCTYPE html><html>no</html>'], 'text/plain');
  const s = await transcribe();
  expect(s.status).toBe(502);
});
test('tool_calls not list, content list odd, delta null', async () => {
  upstream.play([
    data({
      choices: [
        null,
        { index: 0, delta: null },
        5,
        { index: 0, delta: { content: [null, 5, { text: 5 }], tool_calls: { a: 1 }, audio: 5 } },
      ],
    }),
    data(finish({ usage })),
    done,
  ]);
  expect(await seen('chat', { stream: true })).toMatchObject({ status: 200, cost: 0.00018 });
});
test.each(names)('%s: odd members do not crash', async (name) => {
  for (const v of [
    { choices: 5, content: 5, output: 5, usage: 5, data: 5 },
    { choices: [null], content: [null], output: [null], usage: [], data: [null], results: [null] },
    {
      choices: [{ message: 5, error: null }],
      content: {},
      output: {},
      usage: { prompt_tokens: {}, completion_tokens: [], iterations: 5, prompt_tokens_details: 7 },
    },
  ]) {
    json(v);
    const s = await seen(name);
    expect({ name, v, ...s }).toMatchObject({
      status: name === 'speech' ? expect.any(Number) : 502,
      cost: 0,
    });
  }
});
