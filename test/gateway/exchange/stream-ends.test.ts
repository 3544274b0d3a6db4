import type { ServerResponse } from 'node:http';
import { request } from 'undici';
import { chat, lastCharge, post } from '../../support/gateway';
import { first, openRouted, path, second, world } from './routed';
import { data, delta, finish, usage } from './streamed';

// When a stream is whole, and until when it may still be another target's.

const charge = () => lastCharge(world, world.org.org_id);

function playing(...pieces: string[]): (res: ServerResponse) => void {
  return (res) => {
    res.writeHead(200, { 'content-type': 'text/event-stream' });
    for (const piece of pieces) res.write(piece);
    res.end();
  };
}

const text = (said: string, index = 0, more: object = {}) => ({
  id: 'c',
  choices: [{ index, text: said, finish_reason: null, ...more }],
});
const completions = '/v1/completions';

test.each<[string, string, object, string[]]>([
  [
    'one of two choices',
    path,
    chat('Hello', { n: 2, stream: true }),
    [data(delta('Hi'), delta('Ho', 1), finish())],
  ],
  [
    'one of two choices, with usage so far',
    path,
    chat('Hello', { n: 2, stream: true }),
    [data({ ...delta('Hi'), usage }, { ...delta('Ho', 1), usage }, finish({ usage }))],
  ],
  [
    'one of two completions',
    completions,
    { model: 'gpt-4o-mini', prompt: 'Hello', n: 2, max_tokens: 64, stream: true },
    [data(text('Hi'), text('Ho', 1), text('', 0, { finish_reason: 'stop' }))],
  ],
  [
    'the answer to one of two prompts',
    completions,
    { model: 'gpt-4o-mini', prompt: ['One', 'Two'], max_tokens: 64, stream: true },
    [data(text('Hi'), text('Ho', 1), text('', 1, { finish_reason: 'stop' }))],
  ],
])(
  'a stream in which only %s has ended is broken: it ends with an error frame',
  async (_, route, body, pieces) => {
    const url = await openRouted();
    first.answer = playing(...pieces);
    const answer = await post(url + route, world.key, body);
    expect(answer.text).toMatch(/data: \{"error":.*upstream_failed.*\}\n\n$/);
    expect((await charge()).status).toBe('settled');
  },
);

test.each<[string, string[]]>([
  ['every choice has ended', [data(delta('Hi'), delta('Ho', 1), finish({}, 1), finish())]],
  ['the stream says so', [data(delta('Hi'), finish()), 'data: [DONE]\n\n']],
])('a stream of two choices is whole once %s', async (_, pieces) => {
  const url = await openRouted();
  first.answer = playing(...pieces);
  const { text: told } = await post(url + path, world.key, chat('Hello', { n: 2, stream: true }));
  expect(told).not.toContain('error');
});

test('what comes before an answer is let go after a second; an error later is its last frame', async () => {
  const url = await openRouted();
  let upstream: ServerResponse | undefined;
  first.answer = (res) => {
    upstream = res;
    res.writeHead(200, { 'content-type': 'text/event-stream' });
    res.write(data({ id: 'c', choices: [{ index: 0, delta: { role: 'assistant' } }] }));
  };
  const began = performance.now();
  const { body } = await request(url + path, {
    method: 'POST',
    headers: { authorization: `Bearer ${world.key}`, 'content-type': 'application/json' },
    body: JSON.stringify(chat('Hello', { stream: true })),
  });
  const chunks: string[] = [];
  for await (const chunk of body.setEncoding('utf8')) {
    if (chunks.length === 0) upstream?.end(data({ error: { message: 'It broke.' } }));
    chunks.push(chunk as string);
  }
  expect(performance.now() - began).toBeGreaterThan(900);
  expect(chunks.join('')).toMatch(/"role":"assistant".*\n\ndata: \{"error".*It broke/);
  expect(second.asked).toEqual([]);
  expect(await charge()).toMatchObject({ status: 'released', actual_cost_nanos: 0n });
});
