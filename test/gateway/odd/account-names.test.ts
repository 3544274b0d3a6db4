import type { ServerResponse } from 'node:http';
import { chat, post } from '../../support/gateway';
import { first, openRouted, path, second, world } from '../exchange/routed';
import { data, delta } from '../exchange/streamed';

// Refusals that name the account of this gateway, and are told to its clients.

const org = 'org-AbCdEfGhIjKlMnOpQrStUvWx';
const message = `Rate limit reached for gpt-4o-mini in organization ${org} on tokens per min (TPM): Limit 30000.`;
const error = { message, type: 'tokens', param: null, code: 'rate_limit_exceeded' };
const escaped = JSON.stringify({ error }).replace('org-', 'org\\u002d');

const json =
  (status: number, body: string) =>
  (res: ServerResponse): void => {
    res.writeHead(status, { 'content-type': 'application/json' }).end(body);
  };
const events =
  (...pieces: string[]) =>
  (res: ServerResponse): void => {
    res.writeHead(200, { 'content-type': 'text/event-stream' }).end(pieces.join(''));
  };

test.each<[string, (res: ServerResponse) => void, number, boolean]>([
  ['an error', json(429, JSON.stringify({ error })), 429, false],
  ['an error with an escape in it', json(429, escaped), 429, false],
  ['an error of the request', json(400, JSON.stringify({ error })), 400, false],
  [
    'an error with the name beside it',
    json(400, JSON.stringify({ error: { ...error, message: 'No.' }, org })),
    400,
    false,
  ],
  ['an error within a 200', json(200, JSON.stringify({ error })), 429, false],
  ['the first event of a stream', events(data({ error })), 429, true],
  ['an event behind words', events(data(delta('Hi')), data({ error })), 200, true],
  ['an escaped event behind words', events(data(delta('Hi')), `data: ${escaped}\n\n`), 200, true],
])('%s names no account', async (_, answer, status, stream) => {
  const url = await openRouted();
  first.answer = answer;
  second.answer = answer;
  const told = await post(url + path, world.key, chat('Hello', { stream }));
  expect(told.status).toBe(status);
  expect(told.text).not.toContain('AbCdEfGh');
  expect(told.text).toMatch(/organization \[account\] on tokens per min|"No\."/);
});
