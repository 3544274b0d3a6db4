import { type FamilyName, guardedBy } from './guarded';

const terms = { blocked_terms: ['project apollo'] };
const phrase = 'project apollo';

const filtering = guardedBy({ 'dlp-filter': { ...terms, stages: ['input'] } });
const guarding = guardedBy({ 'agent-firewall': { tools: { deny: ['delete_*'] } } });

function asked(
  policies: ReturnType<typeof guardedBy>,
  family: FamilyName,
  more: object | string,
): Promise<void> {
  const said = family === 'chat' ? { messages: [{ role: 'user', content: 'x' }] } : { input: 'x' };
  const body =
    typeof more === 'string' ? more : JSON.stringify({ model: 'gpt-4o-mini', ...said, ...more });
  return policies.request(family, body);
}

const user = (content: unknown) => ({ messages: [{ role: 'user', content }] });
const text = (said: string, more: object = {}) => ({ type: 'text', text: said, ...more });
const schema = (more: object) => ({
  tools: [{ type: 'function', function: { name: 'a', parameters: { type: 'object', ...more } } }],
});

test.each<[string, FamilyName, object | string]>([
  [
    'in two parts with a setting in between',
    'chat',
    user([text('project ', { cache_control: { type: 'ephemeral', ttl: '1h' } }), text('apollo')]),
  ],
  [
    'in two parts with a picture in between',
    'chat',
    user([
      text('project '),
      { type: 'image_url', image_url: { url: 'https://x/y.png' } },
      text('apollo'),
    ]),
  ],
  [
    'in two parts with a repeated member in between',
    'chat',
    `{"model":"gpt-4o-mini","messages":[{"role":"user","content":[{"type":"text","text":"x","text":"project "},{"type":"text","text":"x","text":"apollo"}]}]}`,
  ],
  ['in a label', 'chat', { messages: [{ role: 'tool', tool_call_id: phrase, content: 'x' }] }],
  [
    'in an id',
    'responses',
    { input: [{ type: 'message', role: 'user', id: phrase, content: 'x' }] },
  ],
  ['in the name of a member', 'chat', user([text('x', { [phrase]: 1 })])],
  ['in the names of a schema', 'chat', schema({ definitions: { [phrase]: { type: 'string' } } })],
  ['in the names of a default', 'chat', schema({ default: { [phrase]: 1 } })],
])('a request with a phrase %s is blocked', async (_, family, more) => {
  await expect(asked(filtering, family, more)).rejects.toMatchObject({
    status: 409,
    code: 'input_blocked',
  });
});

test.each<[string, FamilyName, object | string]>([
  [
    'by the first of two names',
    'chat',
    `{"model":"gpt-4o-mini","messages":[{"role":"user","content":"x"}],"tools":[{"type":"function","function":{"name":"delete_x","name":"ok"}}]}`,
  ],
  [
    'by a name beside that of a function',
    'responses',
    { tools: [{ type: 'function', name: 'delete_x', function: { name: 'ok' }, parameters: {} }] },
  ],
  [
    'as two kinds in one',
    'chat',
    { tools: [{ type: 'custom', custom: { name: 'delete_x' }, function: { name: 'ok' } }] },
  ],
  [
    'on a server',
    'responses',
    { tools: [{ type: 'mcp', server_label: 's', allowed_tools: ['delete_x'] }] },
  ],
  [
    'on a server, in a filter',
    'responses',
    { tools: [{ type: 'mcp', server_label: 's', allowed_tools: { tool_names: ['delete_x'] } }] },
  ],
  ['as the choice', 'chat', { tool_choice: { type: 'function', function: { name: 'delete_x' } } }],
  [
    'among the choices',
    'responses',
    { tool_choice: { type: 'allowed_tools', tools: [{ type: 'function', name: 'delete_x' }] } },
  ],
  [
    'by an item of the input',
    'responses',
    { input: [{ type: 'tool_search_output', tools: [{ type: 'function', name: 'delete_x' }] }] },
  ],
])('a denied tool that is offered %s is blocked', async (_, family, more) => {
  await expect(asked(guarding, family, more)).rejects.toMatchObject({
    status: 409,
    details: { extra: { policy: 'agent-firewall' } },
  });
});
