import {
  chatMembers,
  decidingMembers,
  demandReader,
  messageMembers,
  responseMembers,
} from '../../../../gateway/families/billed';
import {
  chatTools,
  messageTools,
  PICTURE_TOKENS,
  responseTools,
  SPOKEN_TOKENS,
} from '../../../../gateway/families/demand';
import { contentBlocks, outputItems } from '../../../../gateway/families/fees';
import { everyWire } from '../../../../gateway/kind-table';
import { checkKeys } from '../../../../gateway/wire/members';
import { anthropic, chatFile, membersOf, responseFile, toolTypes } from './client-types';

// Whatever a request can say is decided once: free, priced or refused. The official clients' types
// are the lists that are walked here, so that a new member of a wire fails until it is decided.

test.each([
  [chatFile, 'ChatCompletionCreateParamsBase', chatMembers, 30],
  [responseFile, 'ResponseCreateParamsBase', responseMembers, 25],
  [anthropic, 'MessageCreateParamsBase', messageMembers, 22],
])('each member of %s is decided', (file, name, members, least) => {
  const known = membersOf(file, name);
  expect(known.length).toBeGreaterThan(least);
  expect(known.filter((one) => !Object.hasOwn(members, one))).toEqual([]);
});

const undated = (type: string) => type.replace(/_\d{8}$|_\d{4}_\d{2}_\d{2}$/, '');

test.each([
  [chatFile, 'ChatCompletionTool', chatTools, 2],
  [responseFile, 'Tool', responseTools, 15],
  [anthropic, 'BetaToolUnion', messageTools, 20],
])('each type of tool of %s is decided', (file, union, tools, least) => {
  const types = toolTypes(file, union);
  expect(types.length).toBeGreaterThanOrEqual(least);
  expect(types.filter((type) => !tools.has(type) && !tools.has(undated(type)))).toEqual([]);
});

const wires = {
  chat: demandReader(chatMembers),
  responses: demandReader(responseMembers),
  messages: demandReader(messageMembers),
};
type Wire = keyof typeof wires;

test.each<[Wire, object, string]>([
  ['chat', { background: true }, 'background'],
  ['chat', { deferred: true }, 'deferred'],
  ['chat', { speed: 'fast' }, 'speed'],
  ['chat', { models: ['a'] }, 'models'],
  ['chat', { fallbacks: [{ model: 'a' }] }, 'fallbacks'],
  ['chat', { plugins: [{ id: 'web' }] }, 'plugins'],
  ['chat', { plugins: 'web' }, 'plugins'],
  ['chat', { enable_search: true }, 'enable_search'],
  ['chat', { search_parameters: { mode: 'auto' } }, 'search_parameters'],
  ['chat', { search_parameters: {} }, 'search_parameters'],
  ['chat', { tools: [{ type: 'builtin_function', function: { name: '$web_search' } }] }, 'tools'],
  ['chat', { tools: [{ type: 'constructor' }] }, 'tools'],
  ['chat', { tools: [{ google_search: {} }] }, 'tools'],
  ['messages', { tools: [{ google_search: {} }] }, 'tools'],
  ['chat', { service_tier: {} }, 'service_tier'],
  ['chat', { service_tier: '' }, 'service_tier'],
  ['responses', { tools: [{ type: 'x_search' }] }, 'tools'],
  ['responses', { input: [{ type: 'additional_tools', tools: [{ type: 'x' }] }] }, 'input'],
  ['responses', { models: ['a'] }, 'models'],
  ['responses', { speed: 'fast' }, 'speed'],
  [
    'responses',
    { tools: [{ type: 'code_interpreter', container: { type: 'auto', memory_limit: '128g' } }] },
    'tools',
  ],
  [
    'responses',
    { tools: [{ type: 'shell', environment: { type: 'container_auto', memory_limit: 64 } }] },
    'tools',
  ],
  ['responses', { model: 'm', tools: [{ type: 'image_generation', model: 'x' }] }, 'tools'],
  ['responses', { tools: [{ type: 'namespace', tools: [{ type: 'x_search' }] }] }, 'tools'],
  ['messages', { tools: [{ type: 'advisor_20260301', model: 'x' }] }, 'tools'],
  ['messages', { tools: [{ type: 'new_tool_20270101' }] }, 'tools'],
  ['messages', { billing_policy: { bill_to: 'user_profile' } }, 'billing_policy'],
  ['messages', { inference_geo: 5 }, 'inference_geo'],
  ['responses', { search_parameters: { mode: 'on' } }, 'search_parameters'],
  ['responses', { enable_search: true }, 'enable_search'],
  ['responses', { web_search_options: {} }, 'web_search_options'],
  ['messages', { plugins: [{ id: 'web' }] }, 'plugins'],
])('%s with %j has no price', (wire, body, param) => {
  expect(() => wires[wire](body as Record<string, unknown>)).toThrow(
    expect.objectContaining({ code: 'invalid_field', details: { param } }),
  );
});

test.each<[Wire, object]>([
  ['chat', {}],
  [
    'chat',
    { plugins: [], background: false, deferred: false, speed: 'standard', enable_search: false },
  ],
  ['chat', { models: null, service_tier: null, web_search_options: null, tools: null }],
  ['chat', { search_parameters: { mode: 'off' }, modalities: ['text'] }],
  ['chat', { tools: [{ type: 'function' }, { type: 'custom' }, { function: { name: 'x' } }] }],
  ['responses', { tools: [{ type: 'mcp' }, { type: 'computer_use_preview' }, { type: 'shell' }] }],
  ['responses', { tools: [{ type: 'shell', environment: { type: 'local' } }], input: 'Hi' }],
  ['responses', { search_parameters: { mode: 'off' }, enable_search: false, plugins: [] }],
  [
    'messages',
    { tools: [{ name: 'x' }, { type: 'bash_20250124' }, { type: 'web_fetch_20250910' }] },
  ],
  ['messages', { billing_policy: { bill_to: 'self' }, thread: { type: 'create' } }],
])('%s with %j asks for nothing but tokens', (wire, body) => {
  expect(wires[wire](body as Record<string, unknown>)).toEqual({
    needs: [],
    units: {},
    untold: {},
  });
});

const one = (param: string, amount: string, units: object, more: object = {}) => ({
  needs: [{ param, amount }],
  units,
  untold: {},
  ...more,
});

test.each<[Wire, object, object]>([
  ['chat', { service_tier: 'flex' }, { needs: [], units: {}, untold: {}, service_tier: 'flex' }],
  ['messages', { inference_geo: 'us' }, { needs: [], units: {}, untold: {}, region: 'us' }],
  [
    'chat',
    { web_search_options: {} },
    one(
      'web_search_options',
      'per_web_search',
      { web_searches: 1 },
      { untold: { web_searches: 1 } },
    ),
  ],
  [
    'chat',
    { modalities: ['image'] },
    one('modalities', 'image_output_per_1m', { image_output_tokens: PICTURE_TOKENS }),
  ],
  [
    'chat',
    { modalities: ['image'], n: 3, best_of: 2 },
    one('modalities', 'image_output_per_1m', { image_output_tokens: 3 * PICTURE_TOKENS }),
  ],
  [
    'chat',
    { modalities: ['text', 'audio'] },
    one('modalities', 'audio_output_per_1m', { audio_output_tokens: SPOKEN_TOKENS }),
  ],
  ['chat', { modalities: ['video'] }, one('modalities', 'video_output_per_1m', {})],
  [
    'responses',
    { tools: [{ type: 'web_search_2025_08_26' }], max_tool_calls: 3 },
    one('tools', 'per_web_search', { web_searches: 3 }, { searches_max: 3 }),
  ],
  [
    'responses',
    { input: [{ type: 'additional_tools', tools: [{ type: 'file_search' }] }] },
    one('input', 'per_file_search', { file_searches: 10 }),
  ],
  [
    'responses',
    { tools: [{ type: 'code_interpreter' }] },
    one('tools', 'per_container', { containers: 1 }, { container_sizes: { code: 1 } }),
  ],
  [
    'responses',
    { tools: [{ type: 'shell', environment: { type: 'container_auto' } }] },
    one('tools', 'per_container', { containers: 1 }, { container_sizes: { shell: 1 } }),
  ],
  [
    'responses',
    { tools: [{ type: 'code_interpreter', container: { type: 'auto', memory_limit: '64g' } }] },
    one('tools', 'per_container', { containers: 64 }, { container_sizes: { code: 64 } }),
  ],
  [
    'responses',
    { tools: [{ type: 'shell', environment: { type: 'container_auto', memory_limit: '16g' } }] },
    one('tools', 'per_container', { containers: 16 }, { container_sizes: { shell: 16 } }),
  ],
  [
    'responses',
    { tools: [{ type: 'code_interpreter', container: { type: 'auto', memory_limit: null } }] },
    one('tools', 'per_container', { containers: 1 }, { container_sizes: { code: 1 } }),
  ],
  [
    // One that an earlier answer made was charged by its size.
    'responses',
    { tools: [{ type: 'code_interpreter', container: 'cntr_1' }] },
    one('tools', 'per_container', { containers: 1 }, { container_sizes: { code: 1 } }),
  ],
  [
    'responses',
    {
      model: 'm',
      tools: [{ type: 'image_generation', model: 'm' }],
    },
    one('tools', 'image_output_per_1m', { image_output_tokens: PICTURE_TOKENS }),
  ],
  [
    'responses',
    { tools: [{ type: 'image_generation' }] },
    one('tools', 'image_output_per_1m', { image_output_tokens: PICTURE_TOKENS }),
  ],
  [
    'responses',
    { tools: [{ type: 'web_search' }] },
    one('tools', 'per_web_search', { web_searches: 10 }),
  ],
  [
    'responses',
    { tools: [{ type: 'file_search' }], max_tool_calls: 2 },
    one('tools', 'per_file_search', { file_searches: 2 }),
  ],
  [
    // Responses has no such member, so whoever serves it may search on.
    'responses',
    { tools: [{ type: 'web_search', max_uses: 1 }] },
    one('tools', 'per_web_search', { web_searches: 10 }),
  ],
  [
    'messages',
    { tools: [{ type: 'web_search_20250305' }] },
    one('tools', 'per_web_search', { web_searches: 10 }),
  ],
  [
    'messages',
    { tools: [{ type: 'web_search_20260318', max_uses: 5 }] },
    one('tools', 'per_web_search', { web_searches: 5 }, { searches_max: 5 }),
  ],
  [
    'messages',
    { tools: [{ type: 'web_search_20250305', max_uses: 1e9 }] },
    one('tools', 'per_web_search', { web_searches: 100 }, { searches_max: 100 }),
  ],
  [
    'messages',
    { tools: [{ type: 'code_execution_20250825' }] },
    one('tools', 'per_container', { containers: 1 }, { container_sizes: { code: 1 } }),
  ],
])('%s with %j asks for what a price must have', (wire, body, demand) => {
  expect(wires[wire](body as Record<string, unknown>)).toEqual(demand);
});

test.each([
  [responseFile, 'ResponseOutputItem', outputItems, 20],
  [anthropic, 'BetaContentBlock', contentBlocks, 12],
])('each type of output of %s is decided', (file, union, decided, least) => {
  const types = toolTypes(file, union);
  expect(types.length).toBeGreaterThanOrEqual(least);
  expect(types.filter((type) => !decided.has(type))).toEqual([]);
});

test('a member that decides about money may stand once, in one spelling', () => {
  const refused = everyWire().flatMap(({ wire }) => wire.refuses ?? []);
  for (const name of [...decidingMembers, ...refused]) {
    const twice = `{"${name}":1,"${name}":2}`;
    const misspelled = `{"${name.toUpperCase()}":1}`;
    for (const text of [twice, misspelled]) expect(() => checkKeys(text)).toThrow();
  }
});
