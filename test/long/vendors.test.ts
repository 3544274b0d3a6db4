import { execFile, execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { copyFileSync, existsSync, mkdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';
import { cacheFolder, childVariables } from '../../runtime/config';
import { root } from '../../runtime/root';
import { ask, options, origin, url, visits, world } from '../gateway/providers/sold';
import { gatewayKey, post } from '../support/gateway';

// The vendors' own clients speak to the sandbox of their providers, and so does the gateway: what
// they send is the same.

const files = ['package.json', 'package-lock.json', 'clients.cjs'];
const from = path.join(root, 'test/long/vendors');

/** The clients with the packages of their own lock file, installed once for each. */
function installed(): string {
  const hash = createHash('sha256');
  for (const file of files.slice(0, 2)) hash.update(readFileSync(path.join(from, file)));
  const folder = path.join(cacheFolder(), `vendors-${hash.digest('hex').slice(0, 16)}`);
  mkdirSync(folder, { recursive: true });
  for (const file of files) copyFileSync(path.join(from, file), path.join(folder, file));
  // npm writes this file at its end.
  if (!existsSync(path.join(folder, 'node_modules/.package-lock.json')))
    execFileSync('npm', ['ci', '--no-audit', '--no-fund'], { cwd: folder, env: process.env });
  return folder;
}

interface Told {
  name: string;
  text?: string;
  events?: string[];
  broken?: string | object;
  status?: number;
  error?: string;
  call?: object;
  usage?: object;
  streamed?: string;
  finish?: string;
  refused?: object;
  vectors?: number[];
}

async function toldByClients(TOKEN: string): Promise<Map<string, Told>> {
  const file = path.join(installed(), 'clients.cjs');
  const env = { ...childVariables(), ORIGIN: origin, TOKEN };
  const { stdout } = await promisify(execFile)(process.execPath, [file], { env });
  const lines = stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as Told);
  return new Map(lines.map((one) => [one.name, one]));
}

/** The requests of one way in, without what differs by its nature. */
function sentBy(prefix: string) {
  return (
    visits
      .filter(({ url, body }) => url.startsWith(prefix) && !JSON.stringify(body).includes('fault'))
      // Colons may stand in a path as they are, or encoded.
      .map(({ path: at, body }) => ({ at: decodeURIComponent(at), body }))
  );
}

test('the clients of the vendors prove the sandbox, and the gateway sends what they send', async () => {
  await ask('gcp-claude', 'Hello');
  const [token = ''] = options.vertex.tokens.keys();
  visits.length = 0;
  const told = await toldByClients(token);
  const theirs = {
    bedrock: sentBy('/bedrock').filter(({ at }) => !at.includes('/converse')),
    converse: sentBy('/bedrock').filter(({ at }) => at.includes('/converse')),
    vertex: sentBy('/vertex'),
    gemini: sentBy('/gemini').filter(({ at }) => !at.includes(':batchEmbed')),
    vectors: sentBy('/gemini').filter(({ at }) => at.includes(':batchEmbed')),
  };
  for (const name of ['bedrock, signed', 'bedrock, an ARN', 'bedrock, by its key', 'vertex']) {
    const { text, events, error, broken } = told.get(name) as Told;
    expect([name, error]).toEqual([name, undefined]);
    expect(text).toContain('Hello');
    expect(events?.at(0)).toBe('message_start');
    expect(events?.at(-1)).toBe('message_stop');
    if (name !== 'vertex') expect(broken).toContain('Too many tokens.');
  }
  expect(told.get('bedrock, a wrong key')).toMatchObject({
    status: 403,
    error: expect.stringContaining('signature'),
  });

  expect(told.get('converse')).toMatchObject({
    text: expect.stringContaining('Hello'),
    call: { name: 'f', input: { a: 'Call' } },
    usage: { inputTokens: expect.any(Number), outputTokens: expect.any(Number) },
    events: expect.arrayContaining([
      'messageStart',
      'contentBlockDelta',
      'messageStop',
      'metadata',
    ]),
    broken: { name: 'ThrottlingException', message: expect.stringContaining('Too many tokens.') },
    refused: { name: 'ThrottlingException' },
  });
  expect(told.get('gemini')).toMatchObject({
    text: expect.stringContaining('Hello'),
    streamed: expect.stringContaining('Hello'),
    finish: 'STOP',
    call: { name: 'f', args: { a: 'Call' } },
    usage: { promptTokenCount: expect.any(Number), candidatesTokenCount: expect.any(Number) },
    refused: { status: 429, message: expect.stringContaining('A fault was asked for') },
    vectors: [8, 8],
  });

  // As the clients of Claude's maker name it.
  const { anthropic_version: version } = theirs.bedrock[0]?.body ?? {};
  const headers = { 'anthropic-version': String(version) };
  const ours = { bedrock: [] as object[], vertex: [] as object[] };
  for (const model of ['aws-claude', 'aws-arn', 'aws-key']) {
    for (const stream of [false, true]) {
      await ask(model, 'Hello', { stream, headers });
      ours.bedrock.push(...sentBy('/bedrock'));
    }
  }
  for (const stream of [false, true]) {
    await ask('gcp-claude', 'Hello', { stream, headers });
    ours.vertex.push(...sentBy('/vertex'));
  }
  expect(ours.bedrock).toEqual(theirs.bedrock.slice(0, 6));
  expect(ours.vertex).toEqual(theirs.vertex);

  // What is translated is what the vendors' clients send.
  const tool = {
    type: 'function',
    function: { name: 'f', parameters: { type: 'object', properties: { a: { type: 'string' } } } },
  };
  for (const [model, prefix, sent] of [
    ['aws-converse', '/bedrock', theirs.converse],
    ['gemini-native', '/gemini', theirs.gemini],
  ] as const) {
    const translated: object[] = [];
    for (const [text, stream, more] of [
      ['Hello', false, {}],
      ['Call', false, { tools: [tool], tool_choice: 'required' }],
      ['Hello', true, {}],
    ] as const) {
      await ask(model, text, { stream, body: { max_tokens: 64, ...more } });
      translated.push(...sentBy(prefix));
    }
    expect(translated).toEqual(sent);
  }
  visits.length = 0;
  const key = await gatewayKey(world.api, world.org.org_id);
  const body = { model: 'gemini-native', input: ['one', 'two'], dimensions: 8 };
  expect((await post(`${url}/v1/embeddings`, key, body)).status).toBe(200);
  expect(sentBy('/gemini')).toEqual(theirs.vectors);
});
