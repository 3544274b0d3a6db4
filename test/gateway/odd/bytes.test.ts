import { brotliCompressSync, gzipSync } from 'node:zlib';
import { messageReader } from '../../../gateway/families/messages';
import { nothing_measured } from '../../../gateway/families/reader';
import { transcriptionReader } from '../../../gateway/families/transcriptions';
import { post } from '../../support/gateway';
import { ask, openScriptedGateway, transcribe, upstream, world } from '../exchange/scripted';
import { good } from '../families/sound-forms';

// Answers whose bytes are other than most, and are what they are all the same.

const answer = JSON.stringify({
  choices: [{ index: 0, message: { role: 'assistant', content: 'Hello' }, finish_reason: 'stop' }],
  usage: { prompt_tokens: 3, completion_tokens: 4, total_tokens: 7 },
});
const json = 'application/json';

test.each([
  ['a client that reads it', 'br, gzip', 'br'],
  ['a client that says nothing', undefined, 'br'],
  ['a client that does not read it', 'gzip, deflate', undefined],
  ['a client that refuses it', 'br;q=0, *', undefined],
])('a coding goes to %s as it came, and else in plain bytes', async (_, accepted, coding) => {
  upstream.play([brotliCompressSync(answer)], json, 200, { 'content-encoding': 'br' });
  const { url } = await openScriptedGateway({});
  const headers = accepted === undefined ? {} : { 'accept-encoding': accepted };
  const body = { model: 'gpt-4o-mini', messages: [{ role: 'user', content: 'Hi' }] };
  const told = await post(`${url}/v1/chat/completions`, world.key, body, headers);
  expect([told.status, told.headers['content-encoding']]).toEqual([200, coding]);
  if (coding === undefined) expect(JSON.parse(told.text).choices[0].message.content).toBe('Hello');
});

test.each(['gzip, gzip', 'identity, gzip'])(
  'a coding that is told as %s is read',
  async (coding) => {
    upstream.play([gzipSync(answer)], json, 200, { 'content-encoding': coding });
    const { status, charge } = await ask('chat');
    expect({ status, charge }).toMatchObject({ status: 200, charge: { usage_source: 'upstream' } });
  },
);

test('words of the account behind a byte order mark are no matter of the client', async () => {
  const error = { message: 'Your credit balance is too low', type: 'invalid_request_error' };
  upstream.play([`\ufeff${JSON.stringify({ error })}`], json, 400);
  const { status, text } = await ask('chat');
  expect(status).toBe(502);
  expect(text).not.toContain('credit balance');
});

test.each(['[00:00:01] Hello there', '[2 people talking] Hello', 'True\n', '["a", or so it seems'])(
  'a plain transcript may be %j',
  async (words) => {
    upstream.play([words], 'text/plain');
    const form = [...good, { name: 'response_format', value: 'text' }];
    const { status, text } = await transcribe(form);
    expect({ status, text }).toEqual({ status: 200, text: words });
  },
);

test('the end of a stream of a transcript takes nothing away that was delivered', () => {
  const found = { ...nothing_measured };
  const read = transcriptionReader.openStream(found, 1);
  read({ type: 'transcript.text.delta', delta: 'Hello there, all of you.' });
  read({ type: 'transcript.text.done' });
  expect(found).toMatchObject({ text: 'Hello there, all of you.', is_done: true });
});

test('usage that Messages tell with the last event alone is whole', () => {
  const found = { ...nothing_measured };
  const read = messageReader.openStream(found, 1);
  read({ type: 'message_start', message: { usage: { input_tokens: 1_000, output_tokens: 1 } } });
  read({ type: 'message_delta', delta: { stop_reason: 'end_turn' } });
  expect(found.is_usage_partial).toBe(true);
  read({ type: 'message_stop', usage: { output_tokens: 100 } });
  expect(found).toMatchObject({
    ...{ is_usage_partial: false, usage: { prompt_tokens: 1_000, completion_tokens: 100 } },
  });
});
