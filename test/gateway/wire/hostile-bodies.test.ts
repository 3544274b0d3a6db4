import { chat as chatFamily, embeddings } from '../../../gateway/families/table';
import { cpuMsOf, leastOf } from '../../support/cpu';
import { type Refusal, refusalOf, take as takeBy } from '../families/taken';

const path = '/v1/chat/completions';
const families = { [path]: chatFamily, '/v1/embeddings': embeddings };

const chat = (content: string) => ({
  model: 'gpt-4o-mini',
  messages: [{ role: 'user', content }],
  max_tokens: 64,
});

function take(body: object | string | Buffer, url: string = path) {
  return takeBy(body, families[url as keyof typeof families]);
}

function refusal(body: object | string | Buffer, url?: string): Promise<Refusal> {
  return refusalOf(take(body, url));
}

const nested = (levels: number, inner = '') => '['.repeat(levels) + inner + ']'.repeat(levels);
const opened = (levels: number) => '{"a":'.repeat(levels) + 1 + '}'.repeat(levels);
const message = (members: string) =>
  `{"model":"gpt-4o-mini","max_tokens":64,"messages":[{"role":"user","content":"Hello"${members}}]`;

test.each<[string, string, string]>([
  ['tools', path, `${message('')},"tools":${nested(10_000)}}`],
  ['response_format', path, `${message('')},"response_format":${opened(10_000)}}`],
  ['a tool call', path, `${message(`,"tool_calls":${nested(10_000)}`)}}`],
  ['stream_options', path, `${message('')},"stream":true,"stream_options":${opened(10_000)}}`],
  ['a member nobody reads', path, `${message('')},"x":${nested(10_000)}}`],
  [
    'a member nobody reads, before the rest',
    path,
    `{"x":${nested(10_000)},${message('').slice(1)}}`,
  ],
  ['one level too many', path, `${message('')},"x":${nested(100)}}`],
  ['no object at all', path, nested(10_000)],
  ['an end that never comes', path, '{"x":['.repeat(10_000)],
  [
    'an embedding',
    '/v1/embeddings',
    `{"model":"text-embedding-3-small","input":"Hello","x":${nested(10_000)}}`,
  ],
])('a body nested too deeply is refused before anything is held: %s', async (_, url, body) => {
  expect(await refusal(body, url)).toMatchObject({
    status: 400,
    error: { code: 'invalid_request', message: expect.stringContaining('nested') },
  });
});

test('a body of millions of levels is refused without being parsed', async () => {
  const body = nested(9_000_000);
  const costs = () =>
    cpuMsOf(async () => expect(await refusal(body)).toMatchObject({ status: 400 }));
  expect(await leastOf(3, 20_000, costs)).toBeLessThan(20_000);
});

test('a hundred levels pass, and brackets in a text are text', async () => {
  await expect(take(`${message('')},"x":${nested(99)}}`)).resolves.toBeDefined();
  await expect(take(chat('{"a":['.repeat(5_000)))).resolves.toBeDefined();
  await expect(take(chat('\\"['.repeat(5_000)))).resolves.toBeDefined();
});

const hello = '"messages":[{"role":"user","content":"Hello"}]';

test.each<[string, string]>([
  ['model', `{"Model":"gpt-4o-mini",${hello}}`],
  ['model', `{"model":"gpt-4o-mini","MODEL":"gpt-4o",${hello}}`],
  ['model', `{"model":"gpt-4o-mini","\\u004dodel":"gpt-4o",${hello}}`],
  ['stream', `{"model":"gpt-4o-mini","STREAM":true,${hello}}`],
  ['stream', `{"model":"gpt-4o-mini","\u017ftream":true,${hello}}`],
  ['max_tokens', `{"model":"gpt-4o-mini","Max_Tokens":100000,${hello}}`],
  ['max_tokens', `{"model":"gpt-4o-mini","max_to\u212aens":100000,${hello}}`],
  ['max_tokens', `{"model":"gpt-4o-mini","maxTokens":100000,${hello}}`],
  ['max_completion_tokens', `{"model":"gpt-4o-mini","max_Completion_tokens":9,${hello}}`],
  ['n', `{"model":"gpt-4o-mini","N":100,${hello}}`],
  ['best_of', `{"model":"gpt-4o-mini","Best_Of":100,${hello}}`],
  ['stream_options', `{"model":"gpt-4o-mini","stream":true,"StreamOptions":{},${hello}}`],
  ['messages', `{"model":"gpt-4o-mini","Messages":[],${hello}}`],
  ['tools', `{"model":"gpt-4o-mini","Tools":[],${hello}}`],
  ['input', `{"model":"gpt-4o-mini","INPUT":"Hello",${hello}}`],
])('a key that decides is taken in its own spelling only: %s in %s', async (right, body) => {
  const { status, error } = await refusal(body);
  expect(status).toBe(400);
  expect(error).toMatchObject({ code: 'invalid_request', param: expect.any(String) });
  expect(error.message).toContain(`"${right}"`);
  expect(error.message).toContain(`"${error.param}"`);
  expect(error.param).not.toBe(right);
});

test.each([
  '{"include_usage":true,"include_usage":false}',
  '{"include_usage":true,"Include_Usage":false}',
  '{"include_usage":true,"includeUsage":false}',
])('what decides inside stream_options is held to the same: %s', async (options) => {
  const { status, error } = await refusal(
    `{"model":"gpt-4o-mini","stream":true,"stream_options":${options},${hello}}`,
  );
  expect(status).toBe(400);
  expect(error.message).toContain('"include_usage"');
});

test.each([
  ['tools', `"tools":[],"tools":[]`],
  ['best_of', `"best_of":1,"best_of":9`],
  ['model', `"\\u006dodel":"gpt-4o"`],
])('a key that decides is taken once: %s', async (param, twice) => {
  const { status, error } = await refusal(`{"model":"gpt-4o-mini",${twice},${hello}}`);
  expect(status).toBe(400);
  expect(error).toMatchObject({ param, message: expect.stringContaining('twice') });
});

test('a key may be written in escapes, and keys that decide nothing in any case', async () => {
  await expect(
    take(`{"\\u006dodel":"gpt-4o-mini","X":1,"x":2,"User":"a",${hello}}`),
  ).resolves.toBeDefined();
});

const model = 'gpt-4o-mini';
const said = [{ role: 'user', content: 'Hello' }];

test.each<[string, object | string, string]>([
  ['a cap of zero', { max_tokens: 0 }, 'max_tokens'],
  ['a cap too small to be told from zero', '"max_tokens":1e-400', 'max_tokens'],
  ['an infinite cap', '"max_completion_tokens":1e400', 'max_completion_tokens'],
  ['a cap that no double holds', '"max_tokens":9007199254740993', 'max_tokens'],
  ['a list of caps', { max_tokens: [5] }, 'max_tokens'],
  [
    'one good cap and one bad one',
    { max_tokens: 5, max_completion_tokens: '5' },
    'max_completion_tokens',
  ],
  ['a text of choices', { n: '3' }, 'n'],
  ['a part of a choice', { n: 2.5 }, 'n'],
  ['fewer choices than none', { n: -1 }, 'n'],
  ['choices without end', '"n":1e400', 'n'],
  ['too many choices', { n: 129 }, 'n'],
  ['too many tries', { best_of: 1e9 }, 'best_of'],
  ['a text of tries', { best_of: 'x' }, 'best_of'],
  ['no messages', { messages: undefined }, 'messages'],
  ['messages that are null', { messages: null }, 'messages'],
  ['messages that are a text', { messages: 'Hello' }, 'messages'],
  ['messages that are an object', { messages: { role: 'user', content: 'Hello' } }, 'messages'],
  ['a message that is a text', { messages: [...said, 'Hello'] }, 'messages[1]'],
  ['a message that is null', { messages: [null] }, 'messages[0]'],
  ['a message that is a list', { messages: [said] }, 'messages[0]'],
  ['stream_options that are a text', { stream: true, stream_options: 'x' }, 'stream_options'],
  ['stream_options that are a list', { stream: true, stream_options: [] }, 'stream_options'],
  [
    'usage asked for with 1',
    { stream: true, stream_options: { include_usage: 1 } },
    'stream_options.include_usage',
  ],
])('a field of the wrong kind is refused by its name: %s', async (_, more, param) => {
  const whole = { model, messages: said, ...(typeof more === 'string' ? {} : more) };
  const text = JSON.stringify(whole);
  const body = typeof more === 'string' ? `${text.slice(0, -1)},${more}}` : text;
  expect(await refusal(body)).toMatchObject({
    status: 422,
    error: { code: 'invalid_field', param },
  });
});

test.each<[string, Buffer]>([
  ['a byte order mark', Buffer.from(`\ufeff${JSON.stringify(chat('Hello'))}`)],
  ['UTF-16', Buffer.from(`\ufeff${JSON.stringify(chat('Hello'))}`, 'utf16le')],
  ['UTF-16 without its mark', Buffer.from(JSON.stringify(chat('Hello')), 'utf16le')],
  ['Latin-1 in a text', Buffer.from(JSON.stringify(chat('Gr\u00fc\u00dfe')), 'latin1')],
  [
    'broken UTF-8 in a key',
    Buffer.from(`{"max\u00ff_tokens":5,${message('').slice(1)}}`, 'latin1'),
  ],
])('a body that is not plain UTF-8 is refused: %s', async (_, body) => {
  expect(await refusal(body)).toMatchObject({ status: 400, error: { code: 'invalid_json' } });
});

const listed = (piece: string, count: number) => Array.from({ length: count }, () => piece).join();
const keys = (count: number) => Array.from({ length: count }, (_, at) => `"x${at}":1`).join();

test.each<[string, string]>([
  ['keys', `${message('')},${keys(1_200_000)}}`],
  ['messages', `{"model":"gpt-4o-mini","messages":[${listed('{}', 5_000_000)}]}`],
  ['texts', `${message(`,"x":[${listed('""', 5_000_000)}]`)}}`],
  ['one piece too many', `${message('')},"x":[${listed('[]', 99_990)}]}`],
])('a body of more pieces than anybody needs is 413 without being parsed: %s', async (_, body) => {
  const error = { code: 'payload_too_large' };
  const costs = () =>
    cpuMsOf(async () => expect(await refusal(body)).toMatchObject({ status: 413, error }));
  expect(await leastOf(3, 20_000, costs)).toBeLessThan(20_000);
});

test('a body of very many pieces passes, and so do long lists of numbers', async () => {
  await expect(take(`${message('')},"x":[${listed('[]', 99_900)}]}`)).resolves.toBeDefined();
  await expect(take(`${message('')},"x":[${listed('7', 1_000_000)}]}`)).resolves.toBeDefined();
});
