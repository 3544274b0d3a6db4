import type { IncomingHttpHeaders } from 'node:http';
import { blankPrice } from '../../../domain/ledger/pricing';
import { many } from '../../../domain/sql';
import { openWorld, type TestGateway, type World } from '../../support/gateway';
import { makePrice } from '../../support/ledger';
import { createRawServer, postMcp, serveTest, type TestServer } from '../../support/mcp';
import { until } from '../../support/until';

let world: World;
let server: TestServer;
/** The requests that reached the server, and its answer. */
let arrived: { headers: IncomingHttpHeaders; text: string }[] = [];

beforeAll(async () => {
  world = await openWorld();
  server = await serveTest(
    createRawServer((req, res, text) => {
      arrived.push({ headers: req.headers, text });
      const messages = [JSON.parse(text || '{}')].flat();
      const said = messages.map(({ id }) => ({ jsonrpc: '2.0', id, result: { content: [] } }));
      res.setHeader('content-type', 'application/json');
      res.end(JSON.stringify(Array.isArray(JSON.parse(text || '{}')) ? said : said[0]));
    }),
  );
  const price = { ...blankPrice, tiers: null, provider: 'mcp', model: 'tools/*', per_request: 0.1 };
  await makePrice(world.api.db, price);
});
beforeEach(() => {
  arrived = [];
});
afterAll(async () => {
  await world.close();
  await server.close();
});

async function open(
  policy: Record<string, object>,
): Promise<{ url: string; gateway: TestGateway }> {
  const mcp = { servers: [{ name: 'tools', url: server.url }] };
  const policies = { chain: Object.keys(policy) };
  const gateway = await world.openGateway({ settings: { mcp, policies, policy } });
  return { url: `${gateway.url}/mcp`, gateway };
}

function call(params: object, more: object = {}) {
  return {
    jsonrpc: '2.0',
    id: 1,
    method: 'tools/call',
    params: { name: 'echo', ...params },
    ...more,
  };
}

function saying(text: unknown) {
  return call({ arguments: { text } });
}

const filter = { blocked_terms: ['falcon'], detect_patterns: ['credit_card', 'us_ssn'] };

async function reservations(): Promise<number> {
  const rows = await many(world.api.db, `select id from reservations where status <> 'canceled'`);
  return rows.length;
}

describe('the policy dlp-filter', () => {
  let url: string;
  let gateway: TestGateway;
  beforeAll(async () => {
    ({ url, gateway } = await open({ 'dlp-filter': { ...filter, stages: ['input'] } }));
  });

  test.each([
    ['a text', saying('Project FALCON flies')],
    ['a text in depth', saying([{ a: { b: ['x', 'falcon'] } }])],
    [
      'an escaped text',
      '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":"\\u0066alcon"}}}',
    ],
    [
      'the first of two',
      '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":"falcon","text":"x"}}}',
    ],
    ['the name of an argument', call({ arguments: { filters: { falcon: 1 } } })],
    ['an argument that is called id', call({ arguments: { id: '123-45-6789' } })],
    ['a number', saying(4_111_111_111_111_111)],
    ['the name of a tool', call({ name: 'falcon_search' })],
    ['what the client adds', call({ _meta: { note: 'falcon' } })],
    ['the answer to a question of the server', call({ inputResponses: { a: { text: 'falcon' } } })],
    ['a second call of a batch', [saying('x'), { ...saying('falcon'), id: 2 }]],
    [
      'the arguments of a prompt',
      call({ arguments: { text: 'falcon' } }, { method: 'prompts/get' }),
    ],
    ['an answer to the server', { jsonrpc: '2.0', id: 7, result: { content: { text: 'falcon' } } }],
  ])(
    'blocks a request that says what is forbidden in %s, and nothing is paid or sent',
    async (_, body) => {
      const before = await reservations();
      const answer = await postMcp(url, { key: world.key, body });
      expect(answer.status).toBe(409);
      expect([answer.body].flat()[0]).toMatchObject({
        jsonrpc: '2.0',
        error: { data: { code: 'input_blocked', type: 'policy_violation', policy: 'dlp-filter' } },
      });
      expect(answer.text.toLowerCase()).not.toContain('falcon');
      expect(arrived).toEqual([]);
      expect(await reservations()).toBe(before);
      await until(() => gateway.gateway.events.count() === 0);
      const [event] = await many<{ payload: object }>(
        world.api.db,
        `select payload from events where type = 'request.blocked' order by id desc limit 1`,
      );
      expect(event?.payload).toMatchObject({ policy: 'dlp-filter', stage: 'input', family: 'mcp' });
    },
  );

  test.each([
    ['ordinary words', saying('eagle')],
    [
      'the words of the protocol',
      call({
        _meta: {
          'io.modelcontextprotocol/clientInfo': { name: 'Falcon' },
          progressToken: 'falcon',
        },
      }),
    ],
    [
      'the introduction of a client',
      { jsonrpc: '2.0', id: 1, method: 'initialize', params: { clientInfo: { name: 'Falcon' } } },
    ],
  ])('lets %s through as they are', async (_, body) => {
    expect((await postMcp(url, { key: world.key, body })).status).toBe(200);
    expect(arrived[0]?.text).toBe(JSON.stringify(body));
  });

  test('redacts what it finds, in a body and in the headers that repeat it, and nothing else', async () => {
    const redacting = await open({
      'dlp-filter': { ...filter, action: 'redact', stages: ['input'] },
    });
    const text =
      '{ "jsonrpc":"2.0", "id":1.0, "method":"tools/call", "params":{"name":"echo","arguments":{"n":12345678901234567890,"text":"the falcon","card":4111111111111111}}}';
    const headers = { 'mcp-param-text': 'the falcon', 'mcp-param-other': 'é=' };
    const answer = await postMcp(redacting.url, { key: world.key, body: text, headers });
    expect(answer.status).toBe(200);
    const sent = arrived[0]?.text as string;
    const { text: said, card } = JSON.parse(sent).params.arguments;
    expect(said).toMatch(/^the \S+$/);
    expect(sent).not.toMatch(/falcon|4111/);
    expect(sent).toBe(
      text
        .replace('"the falcon"', JSON.stringify(said))
        .replace('4111111111111111', JSON.stringify(card)),
    );
    expect(arrived[0]?.headers).toMatchObject({ 'mcp-param-text': said, 'mcp-param-other': 'é=' });
  });

  test('blocks the name of a tool also where it redacts, as another name would be another tool', async () => {
    const redacting = await open({ 'dlp-filter': { ...filter, action: 'redact' } });
    const answer = await postMcp(redacting.url, { key: world.key, body: call({ name: 'falcon' }) });
    expect(answer.status).toBe(409);
  });
});

describe('the policy rbac', () => {
  test('asks for its headers with all that reaches a server', async () => {
    const required_headers = [{ name: 'x-role', values: ['analyst'] }];
    const { url } = await open({ rbac: { required_headers } });
    const list = { jsonrpc: '2.0', id: 1, method: 'tools/list' };
    for (const body of [saying('x'), list]) {
      const refused = await postMcp(url, { key: world.key, body, headers: { 'x-role': 'intern' } });
      expect(refused.status).toBe(409);
      expect(refused.body).toMatchObject({
        id: 1,
        error: { data: { code: 'input_blocked', policy: 'rbac' } },
      });
      const headers = { 'x-role': 'analyst' };
      expect((await postMcp(url, { key: world.key, body, headers })).status).toBe(200);
    }
    expect(arrived).toHaveLength(2);
  });
});
