import { gatewayKey } from '../../support/gateway';
import {
  connectNew,
  connectOld,
  createRawServer,
  serveTest,
  type TestServer,
} from '../../support/mcp';
import { bearer, modern, open, payer, send, url, world } from './serving';

let server: TestServer;
let answer = '';
let type = 'application/json';

beforeAll(async () => {
  server = await serveTest(
    createRawServer((_, res) => void res.writeHead(200, { 'content-type': type }).end(answer)),
  );
});
afterAll(() => server.close());

async function keyFor(allowed_models: string[] | null): Promise<string> {
  return gatewayKey(world.api, (await payer()).org_id, { allowed_models });
}

const firewall = (rules: object) => ({
  policies: { chain: ['agent-firewall'] },
  policy: { 'agent-firewall': { tools: rules } },
});

describe.each([
  ['the first SDK', (at: string, key: string) => connectOld(at, bearer(key))],
  ['the second SDK', (at: string, key: string) => connectNew(at, bearer(key))],
  ['the newest protocol', (at: string, key: string) => connectNew(at, bearer(key), modern)],
])('%s', (_, connect) => {
  async function listed(at: string, key: string): Promise<string[]> {
    const { client } = await connect(at, key);
    const { tools: found } = await client.listTools();
    await client.close();
    return found.map(({ name }) => name);
  }

  it('lists what the key may call', async () => {
    for (const [allowed, names] of [
      [null, ['echo', 'add', 'slow']],
      [['tools/add'], ['add']],
      [['tools/*'], ['echo', 'add', 'slow']],
      [['tools/s*', 'other/add', 'gpt-4o'], ['slow']],
      [['gpt-4o'], []],
    ] as [string[] | null, string[]][])
      expect(await listed(url, await keyFor(allowed))).toEqual(names);
  });

  it('lists what the firewall lets be called', async () => {
    const { key } = await payer();
    expect(await listed(await open(firewall({ deny: ['ADD'] })), key)).toEqual(['echo', 'slow']);
    const both = await open(firewall({ allow: ['e*', 's*'], deny: ['slow'] }));
    expect(await listed(both, key)).toEqual(['echo']);
    expect(await listed(both, await keyFor(['tools/slow']))).toEqual([]);
  });
});

describe('of a list', () => {
  const list = '{"jsonrpc":"2.0","id":1,"method":"tools/list"}';
  const told = (names: string[]) =>
    `{"jsonrpc":"2.0","id":1,"result":{"a": 1.50,"tools":[${names.map((name) => `{"name":"${name}", "n":9007199254740993}`).join(',')}],"nextCursor":"x"}}`;

  async function read(body = list, more: object = {}): Promise<string> {
    const mcp = { servers: [{ name: 'raw', url: server.url }] };
    const gateway = await world.openGateway({ settings: { mcp, ...more } });
    const sent = await send(body, { key: await keyFor(['raw/b']), to: `${gateway.url}/mcp` });
    expect(sent.status).toBe(200);
    return sent.text;
  }

  it('everything else stays as it was, in JSON and in events', async () => {
    type = 'application/json';
    answer = ` ${told(['a', 'b', 'c'])}\n`;
    expect(await read()).toBe(` ${told(['b'])}\n`);
    answer = `[{"jsonrpc":"2.0","id":2,"result":{}},${told(['a'])},${told(['b'])}]`;
    expect(await read()).toBe(`[{"jsonrpc":"2.0","id":2,"result":{}},${told([])},${told(['b'])}]`);
    type = 'text/event-stream';
    const notice = 'data: {"jsonrpc":"2.0","method":"notifications/message","params":{}}\n\n';
    answer = `id: 7\n${notice}event: message\nid: 8\ndata: ${told(['a', 'b'])}\n\n`;
    const text = await read();
    expect(text.startsWith(`id: 7\n${notice}`)).toBe(true);
    expect(text).toContain(`data: ${told(['b'])}\n`);
    expect(text).toContain('id: 8\n');
    expect(text).not.toContain('"name":"a"');
  });

  it('names are read as JSON reads them, and what names nothing is left out', async () => {
    type = 'application/json';
    answer = told(['\\u0062', '\\u0061']).replace(']', ',7,{"title":"b"},{"name":"a","name":"b"}]');
    const text = await read();
    expect(text).toContain('\\u0062');
    expect(text).not.toContain('\\u0061');
    expect(text).not.toContain('title');
    expect(JSON.parse(text).result.tools).toHaveLength(2);
  });

  it('what is no list passes, also where a filter looks at it besides', async () => {
    type = 'application/json';
    for (answer of ['{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"No"}}', 'nonsense', '7'])
      expect(await read()).toBe(answer);
    const dlp = { blocked_terms: ['falcon'], action: 'redact', stages: ['output'] };
    const more = { policies: { chain: ['dlp-filter'] }, policy: { 'dlp-filter': dlp } };
    answer = told(['a falcon', 'b']).replace('"x"', '"the falcon"');
    const text = await read(list, more);
    expect(text).not.toContain('falcon');
    expect(JSON.parse(text).result.tools).toMatchObject([{ name: 'b' }]);
  });
});

test('a call of a tool is not held up by what hides lists', async () => {
  const key = await keyFor(['tools/add']);
  const body =
    '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"add","arguments":{"a":1,"b":2}}}';
  expect((await send(body, { key })).text).toContain('"3"');
});
