import { mkdtempSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import path from 'node:path';
import pino from 'pino';
import { many } from '../../../domain/sql';
import { listen } from '../../../runtime/listen';
import { gatewayKey, message, post } from '../../support/gateway';
import { openReceiver, type Receiver } from '../../support/telemetry/otlp';
import { until } from '../../support/until';
import { otlp } from '../telemetry/traces';
import { ask, newCaller, openSold, options, targets, visits, world } from './sold';

// Tokens that die under load, and where none of them may be read.

const secrets = ['aws-secret', 'bedrock-key', 'azure-key', 'upstream-secret', 'ya29.sandbox'];

/** By one key: fifty that a gateway has never seen are taken for guesses if they come at once. */
async function manyAt(at: string, model: string, caller: string) {
  return Promise.all(Array.from({ length: 50 }, () => ask(model, 'Hello', { at, caller })));
}

test('fifty calls whose token dies at once cost one renewal, and none fails', async () => {
  const { vertex } = options;
  const at = await openSold();
  const caller = await newCaller();
  expect((await ask('gcp-claude', 'Hello', { at, caller })).status).toBe(200);
  const before = vertex.tokens.size;
  for (const token of vertex.tokens.keys()) vertex.tokens.set(token, 0);
  const answers = await manyAt(at, 'gcp-claude', caller);
  expect(answers.filter(({ status }) => status !== 200)).toEqual([]);
  expect(vertex.tokens.size).toBe(before + 1);
});

test('a good token that is refused all the same costs each call two attempts, and one renewal', async () => {
  const { vertex } = options;
  const at = await openSold({ circuit_breaker: { enabled: false } });
  expect((await ask('gcp-claude', 'Hello', { at })).status).toBe(200);
  const tokens = vertex.tokens.size;
  for (const token of vertex.tokens.keys()) vertex.tokens.set(token, 0);
  // Each token is dead as it is given.
  const given = vertex.tokens.set.bind(vertex.tokens);
  vertex.tokens.set = (token: string) => given(token, 0);
  for (let count = 0; count < 3; count += 1) {
    const { status, text } = await ask('gcp-claude', 'Hello', { at });
    expect([status, text]).toEqual([502, expect.stringContaining("gateway's own account")]);
    const attempts = visits.filter(({ url }) => url.startsWith('/vertex'));
    expect(attempts.length).toBe(count === 0 ? 2 : 1);
  }
  expect(vertex.tokens.size).toBe(tokens + 1);
  vertex.tokens.set = given;
});

test('counts of tokens and lists of models renew a key that is no longer taken', async () => {
  const asked: string[] = [];
  let taken = '';
  let next = 'new-key';
  const server = createServer((req, res) => {
    const key = String(req.headers['x-api-key']);
    // Replaced while a request is under way.
    if (next !== '') replace(next);
    next = '';
    asked.push(`${req.url} ${key}`);
    const is_list = req.url?.startsWith('/v1/models') === true;
    res.writeHead(key === taken ? 200 : 401, { 'content-type': 'application/json' });
    if (key !== taken) res.end('{"type":"error","error":{"type":"authentication_error"}}');
    else res.end(JSON.stringify(is_list ? { data: [{ id: 'listed' }] } : { input_tokens: 77 }));
  });
  const base_url = `http://127.0.0.1:${await listen(server, 0)}`;
  const file = path.join(mkdtempSync(path.join(tmpdir(), 'svc-renewals-')), 'key');
  const replace = (key: string) => {
    taken = key;
    writeFileSync(file, key);
  };
  replace('old-key');
  const row = { id: 'own', kind: 'vllm', shape: 'anthropic', base_url, auth: { key_file: file } };
  const at = await openSold({}, [{ ...row, discover: true }]);
  const caller = await gatewayKey(world.api, world.org.org_id);
  const count = async (model: string) => {
    const { max_tokens: _, ...body } = message('Hello', { model });
    return (await post(`${at}/v1/messages/count_tokens`, caller, body)).text;
  };
  const [list, counts] = ['/v1/models?limit=1000', '/v1/messages/count_tokens'];
  await until(() => asked.length > 1);
  expect(asked).toEqual([`${list} old-key`, `${list} new-key`]);
  expect(await count('listed')).toBe('{"input_tokens":77}');
  next = 'third-key';
  asked.length = 0;
  expect(await count('listed')).toBe('{"input_tokens":77}');
  expect(asked).toEqual([`${counts} new-key`, `${counts} third-key`]);
  // A key that is no better is not tried again.
  taken = 'none';
  asked.length = 0;
  expect(await count('listed')).not.toBe('{"input_tokens":77}');
  expect(asked).toEqual([`${counts} third-key`]);
  server.closeAllConnections();
  server.close();
});

test('no key and no token stands in a line, a span, an event or an answer', async () => {
  const receiver: Receiver = await openReceiver();
  process.env.TEST_OTLP = receiver.url;
  const settings = { providers: { targets: targets() }, ...otlp() };
  const made = await world.openGateway({ settings });
  const lines: string[] = [];
  made.gateway.log = pino({ level: 'trace' }, { write: (line) => void lines.push(line) });
  const texts: string[] = [];
  const all = ['aws-claude', 'aws-key', 'aws-chat', 'gcp-claude', 'az', 'foundry', 'mistral'];
  const { azure, bedrock } = options;
  const refuse = () => {
    options.azure = { ...azure, keys: new Set() };
    options.bedrock = { ...bedrock, bearers: new Set(), keys: new Map() };
    for (const token of options.vertex.tokens.keys()) options.vertex.tokens.set(token, 0);
    options.vertex.is_down = true;
  };
  for (const change of [() => undefined, refuse]) {
    change();
    for (const model of all)
      for (const stream of [false, true]) {
        const { status, text } = await ask(model, 'Hello', { at: made.url, stream });
        texts.push(`${status} ${text}`);
      }
  }
  options.azure = azure;
  options.bedrock = bedrock;
  options.vertex.is_down = false;
  await until(() => receiver.spans.length >= all.length * 4);
  const events = await many(world.api.db, 'select * from events');
  const told = { lines, texts, spans: Buffer.concat(receiver.bytes).toString('latin1'), events };
  for (const [where, what] of Object.entries(told)) {
    const text = JSON.stringify(what, (_, value) =>
      typeof value === 'bigint' ? `${value}` : value,
    );
    expect([where, text.length > 100]).toEqual([where, true]);
    for (const secret of secrets) expect([where, text.includes(secret)]).toEqual([where, false]);
  }
  await made.close();
  await receiver.close();
});
