import { connect } from '../../support/socket';
import { openScriptedGateway, upstream, world } from '../exchange/scripted';
import { data, delta } from '../exchange/streamed';

// Errors behind the first text, as frames of a socket: one in the shape that errors have here.

const failures: [string, string][] = [
  ['as a text', data({ error: 'it broke' })],
  ['in a choice', data({ choices: [{ index: 0, error: { message: 'it broke' } }] })],
  ['as an object', data({ object: 'error', message: 'it broke' })],
  ['as a detail', data({ detail: 'it broke' })],
  ['as an event with words', 'event: error\ndata: it broke\n\n'],
];

test.each(failures)('an error %s is one error frame, and no end follows', async (_, failure) => {
  const { url } = await openScriptedGateway({});
  const headers = { authorization: `Bearer ${world.key}` };
  const socket = await connect(`${url}/v1/chat/completions/ws`, headers);
  upstream.play([data(delta('Hi')), 'data: hello there\n\n', failure]);
  const messages = [{ role: 'user', content: 'Hello' }];
  socket.send({ type: 'chat.completion.create', model: 'gpt-4o-mini', max_tokens: 64, messages });
  const frames = await socket.answer('error');
  expect(frames.at(-1)?.error.message).toBe('it broke');
  // The socket goes on, and its next frames are those of the next answer.
  upstream.play([data({ error: { message: 'again', code: 400 } })]);
  socket.send({ type: 'chat.completion.create', model: 'gpt-4o-mini', max_tokens: 64, messages });
  const [next] = await socket.answer('error');
  expect(next?.error.message).toBe('again');
  socket.ws.close();
});

test('words about the account of the gateway are no frame', async () => {
  const { url } = await openScriptedGateway({});
  const headers = { authorization: `Bearer ${world.key}` };
  const socket = await connect(`${url}/v1/responses`, headers);
  const error = { code: 'insufficient_quota', message: 'Check your plan and billing details.' };
  const response = { id: 'r', status: 'failed', output: [], error };
  const events = [
    { type: 'response.output_text.delta', delta: 'Hi' },
    { type: 'response.failed', response },
  ];
  upstream.play([data(...events)]);
  socket.send({ type: 'response.create', model: 'gpt-4o-mini', input: 'Hello' });
  const frames = await socket.answer('error');
  expect(JSON.stringify(frames)).not.toContain('billing');
  expect(frames.at(-1)?.error.code).toBe('upstream_failed');
  socket.ws.close();
});
