import { chat, openWorld, post, type World } from '../../support/gateway';

let world: World;
let tools_only: string;

const path = '/v1/chat/completions';

beforeAll(async () => {
  world = await openWorld();
  tools_only = await open({
    'agent-firewall': { tools: { allow: ['get_*', 'search'], deny: ['get_secret*'] } },
  });
});

afterAll(() => world.close());

async function open(policy: object, more: object = {}): Promise<string> {
  const chain = Object.keys(policy).filter((kind) => kind !== 'cache_control');
  const settings = { pack: 'baseline', policies: { chain }, policy, ...more };
  return (await world.openGateway({ settings })).url;
}

const tool = (name: string, more: object = {}) => ({
  type: 'function',
  function: { name, ...more },
});
const flat = (name: string) => ({ type: 'function', name, parameters: {} });
const response = (more: object) => ({ model: 'gpt-4o-mini', input: 'Hi', ...more });

test.each([
  [path, chat('Hi', { tools: [tool('get_weather'), tool('get_secrets')] }), 'tools.deny[0]'],
  [path, chat('Hi', { tools: [tool('GET_SECRET')] }), 'tools.deny[0]'],
  [path, chat('Hi', { tools: [tool('delete_file')] }), 'tools.allow'],
  [path, chat('Hi', { functions: [{ name: 'delete_file' }] }), 'tools.allow'],
  ['/v1/responses', response({ tools: [flat('delete_file')] }), 'tools.allow'],
  ['/v1/responses', response({ tools: [{ type: 'web_search' }] }), 'tools.allow'],
  [
    '/v1/responses',
    response({ tools: [{ type: 'namespace', name: 'get_x', tools: [flat('y')] }] }),
    'tools.allow',
  ],
])(
  'a request to %s that offers a tool it may not is answered 409 (case %#)',
  async (url, body, rule) => {
    const answer = await post(tools_only + url, world.key, body);
    expect(answer.status).toBe(409);
    expect(JSON.parse(answer.text).error).toMatchObject({
      code: 'input_blocked',
      policy: 'agent-firewall',
      message: expect.stringContaining(rule),
    });
  },
);

test('tools that may be used are, by streams and by JSON', async () => {
  const asked = chat('Hi', {
    tools: [tool('get_weather', { parameters: { properties: { city: {} } } })],
  });
  for (const stream of [false, true]) {
    const answer = await post(tools_only + path, world.key, { ...asked, stream });
    expect(answer.status).toBe(200);
    expect(answer.text).toContain('get_weather');
  }
});

test('required headers: a missing or wrong one is answered 409', async () => {
  const url = await open({
    rbac: {
      required_headers: [
        { name: 'X-Role', values: ['analyst', 'admin'] },
        { name: 'x-ticket', pattern: 'OPS-\\d+' },
        { name: 'x-purpose' },
      ],
    },
  });
  const good = { 'x-role': 'admin', 'x-ticket': 'OPS-12', 'x-purpose': 'test' };
  const ask = (headers: Record<string, string>) => post(url + path, world.key, chat('Hi'), headers);
  expect((await ask(good)).status).toBe(200);
  const { 'x-purpose': _, ...without } = good;
  for (const bad of [{ ...good, 'x-role': 'Admin' }, { ...good, 'x-ticket': 'xOPS-12' }, without]) {
    const answer = await ask(bad);
    expect(answer.status).toBe(409);
    expect(JSON.parse(answer.text).error).toMatchObject({ code: 'input_blocked', policy: 'rbac' });
  }
});
