import { type FamilyName, guardedBy } from './guarded';

const paths: Record<string, FamilyName> = {
  '/v1/chat/completions': 'chat',
  '/v1/responses': 'responses',
};
const path = '/v1/chat/completions';
const tools_only = guardedBy({
  'agent-firewall': { tools: { allow: ['get_*', 'search'], deny: ['get_secret*'] } },
});

const chat = (content: string, more: object = {}) => ({
  model: 'gpt-4o-mini',
  messages: [{ role: 'user', content }],
  ...more,
});
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
    const asked = tools_only.request(paths[url] as FamilyName, JSON.stringify(body));
    await expect(asked).rejects.toMatchObject({
      status: 409,
      code: 'input_blocked',
      message: expect.stringContaining(rule),
      details: { extra: { policy: 'agent-firewall' } },
    });
  },
);

test('required headers: a missing or wrong one is answered 409', async () => {
  const { request } = guardedBy({
    rbac: {
      required_headers: [
        { name: 'X-Role', values: ['analyst', 'admin'] },
        { name: 'x-ticket', pattern: 'OPS-\\d+' },
        { name: 'x-purpose' },
      ],
    },
  });
  const good = { 'x-role': 'admin', 'x-ticket': 'OPS-12', 'x-purpose': 'test' };
  const ask = (headers: Record<string, string>) =>
    request('chat', JSON.stringify(chat('Hi')), headers);
  await expect(ask(good)).resolves.toBeUndefined();
  const { 'x-purpose': _, ...without } = good;
  for (const bad of [{ ...good, 'x-role': 'Admin' }, { ...good, 'x-ticket': 'xOPS-12' }, without]) {
    await expect(ask(bad)).rejects.toMatchObject({
      status: 409,
      code: 'input_blocked',
      details: { extra: { policy: 'rbac' } },
    });
  }
});
