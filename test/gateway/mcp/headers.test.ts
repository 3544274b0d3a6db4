import { blankPrice } from '../../../domain/ledger/pricing';
import { createMcpServer } from '../../../sandbox/tools/mcp-server';
import { openWorld, type World } from '../../support/gateway';
import { makePrice } from '../../support/ledger';
import { postMcp, serveTest, type TestServer } from '../../support/mcp';

let world: World;
let tools: TestServer;
let url: string;

beforeAll(async () => {
  world = await openWorld();
  tools = await serveTest(createMcpServer());
  const price = { ...blankPrice, tiers: null, provider: 'mcp', model: 'tools/*', per_request: 0.1 };
  await makePrice(world.api.db, price);
  const mcp = { servers: [{ name: 'tools', url: tools.url }] };
  url = `${(await world.openGateway({ settings: { mcp } })).url}/mcp`;
});
afterAll(async () => {
  await world.close();
  await tools.close();
});

const modern = '2026-07-28';

/** A call of a tool in the newest protocol. */
function call(name = 'echo', version = modern) {
  const _meta = {
    'io.modelcontextprotocol/protocolVersion': version,
    'io.modelcontextprotocol/clientInfo': { name: 'test', version: '1.0.0' },
    'io.modelcontextprotocol/clientCapabilities': {},
  };
  const params = { name, arguments: { text: 'x' }, _meta };
  return { jsonrpc: '2.0', id: 'one', method: 'tools/call', params };
}

const right = {
  'mcp-protocol-version': modern,
  'mcp-method': 'tools/call',
  'mcp-name': 'echo',
};
const old = {
  jsonrpc: '2.0',
  id: 'one',
  method: 'tools/call',
  params: { name: 'echo', arguments: { text: 'x' } },
};
const reading = {
  jsonrpc: '2.0',
  id: 'one',
  method: 'resources/read',
  params: { ...call().params, name: undefined, uri: 'file:///a' },
};
const coded = (text: string) => `=?base64?${Buffer.from(text).toString('base64')}?=`;
const without = (name: string) =>
  Object.fromEntries(Object.entries(right).filter(([key]) => key !== name));

test.each([
  ['another tool', call('add'), right, 'mcp-name'],
  ['another tool, in Base64', call(), { ...right, 'mcp-name': coded('add') }, 'mcp-name'],
  ['a name in broken Base64', call(), { ...right, 'mcp-name': '=?base64?*?=' }, 'mcp-name'],
  ['a name of other letters', call('écho'), { ...right, 'mcp-name': 'écho' }, 'mcp-name'],
  ['another method', call(), { ...right, 'mcp-method': 'tools/list' }, 'mcp-method'],
  ['a method in capitals', call(), { ...right, 'mcp-method': 'Tools/Call' }, 'mcp-method'],
  [
    'another version',
    call(),
    { ...right, 'mcp-protocol-version': '2025-11-25' },
    'mcp-protocol-version',
  ],
  ['no version', call(), without('mcp-protocol-version'), 'mcp-protocol-version'],
  ['no method', call(), without('mcp-method'), 'mcp-method'],
  ['no name', call(), without('mcp-name'), 'mcp-name'],
  [
    'another resource',
    reading,
    { ...right, 'mcp-method': 'resources/read', 'mcp-name': 'file:///b' },
    'mcp-name',
  ],
  ['another tool in the older protocol', old, { 'mcp-name': 'add' }, 'mcp-name'],
  ['another method in a batch', [old], { 'mcp-method': 'tools/list' }, 'mcp-method'],
])(
  'a request whose headers and body disagree (%s) is 400 with the error of its protocol, and free',
  async (_, body, headers, param) => {
    const before = await world.api.db('reservations').count('id');
    const answer = await postMcp(url, { key: world.key, headers, body });
    expect(answer.status).toBe(400);
    const [told] = [answer.body].flat();
    expect(told).toMatchObject({
      jsonrpc: '2.0',
      id: 'one',
      error: { code: -32_020, data: { code: 'header_mismatch', status: 400, param } },
    });
    expect(await world.api.db('reservations').count('id')).toEqual(before);
  },
);

test.each([
  ['all headers', call(), right],
  ['its name in Base64', call(), { ...right, 'mcp-name': coded('echo') }],
  ['no header, in the older protocol', old, {}],
  ['right headers, in the older protocol', old, { 'mcp-method': 'tools/call', 'mcp-name': 'echo' }],
])('a call with %s reaches its tool', async (_, body, headers) => {
  const answer = await postMcp(url, { key: world.key, headers, body });
  expect(answer.status).toBe(200);
  expect(answer.body.result.content).toEqual([{ type: 'text', text: 'x' }]);
});

test('what a server alone can judge is left to it: a version that nobody knows, arguments in headers', async () => {
  const unknown = call('echo', '2099-01-01');
  const headers = { ...right, 'mcp-protocol-version': '2099-01-01', 'mcp-param-text': 'y' };
  const answer = await postMcp(url, { key: world.key, headers, body: unknown });
  expect([answer.status, answer.body.error.code]).toEqual([400, -32_022]);
  const known = { ...right, 'mcp-param-text': 'y' };
  expect((await postMcp(url, { key: world.key, headers: known, body: call() })).status).toBe(200);
});
