import { createServer, type Server } from 'node:http';
import { isDeepStrictEqual } from 'node:util';
import { adopt } from '../../../gateway/adopt';
import type { Snapshot } from '../../../gateway/call/snapshot';
import { openSnapshot } from '../../../gateway/call/snapshot';
import { checkConfig, parseSettings } from '../../../gateway/config/settings';
import { discoveryOf } from '../../../gateway/config/targets';
import { listen } from '../../../runtime/listen';
import { openWorld, type TestGateway, type World } from '../../support/gateway';
import { until } from '../../support/until';

// A server of one's own that says itself which models it has.

let world: World;
let server: Server;
let base_url: string;
let listed: string[] = [];
let is_down = false;
let asked = 0;

beforeAll(async () => {
  world = await openWorld();
  server = createServer((req, res) => {
    asked += 1;
    if (is_down || req.url !== '/v1/models') res.writeHead(503);
    else res.writeHead(200, { 'content-type': 'application/json' });
    res.end(
      JSON.stringify({ object: 'list', data: listed.map((id) => ({ id, object: 'model' })) }),
    );
  });
  base_url = `http://127.0.0.1:${await listen(server, 0)}/v1`;
});
afterAll(async () => {
  await world.close();
  server.closeAllConnections();
  server.close();
});

const settings = (discover: unknown, more: object = {}) => ({
  providers: { targets: [{ id: 'own', kind: 'vllm', base_url, auth: 'none', discover, ...more }] },
});
const namesOf = ({ providers }: Pick<Snapshot, 'providers'>) =>
  providers.models(new Set(['openai'] as const), null).map(({ model }) => model);
/** What a list says may come late: a configuration waits for it two seconds at most. */
async function expectNames(gateway: TestGateway['gateway'], names: string[]): Promise<void> {
  const found = () => namesOf(gateway.snapshot);
  await until(() => isDeepStrictEqual(found(), names)).catch(() => undefined);
  expect(found()).toEqual(names);
}
const open = (discover: unknown, more: object = {}) =>
  world.openGateway({ settings: settings(discover, more) });
const adopted = ({ gateway }: TestGateway, discover: unknown) =>
  adopt(gateway, openSnapshot(parseSettings(JSON.stringify(settings(discover))), gateway));

test('a target serves what its server lists, as far as patterns match, beside what it names', async () => {
  listed = ['qwen3-8b', 'qwen3-32b', 'llama-3.2', 'qwen3.8b'];
  const { gateway } = await open(
    { match: ['qwen3-*'] },
    { models: [{ name: 'mine', upstream: 'llama-3.2' }] },
  );
  await expectNames(gateway, ['mine', 'qwen3-8b', 'qwen3-32b']);
  const all = await open(true);
  await expectNames(all.gateway, listed);
});

test('a list that is empty, too long or away leaves what was known', async () => {
  listed = ['a', 'b'];
  const made = await open({ models_max: 3 });
  for (const change of [[], Array.from({ length: 10_000 }, (_, at) => `m${at}`)]) {
    listed = change;
    await adopted(made, { models_max: 3 });
    await expectNames(made.gateway, ['a', 'b']);
  }
  is_down = true;
  const before = asked;
  await adopted(made, { models_max: 3 });
  await until(() => asked > before);
  is_down = false;
  expect([namesOf(made.gateway.snapshot), asked]).toEqual([['a', 'b'], before + 1]);
  listed = ['a', 'c'];
  await adopted(made, { models_max: 3 });
  await expectNames(made.gateway, ['a', 'c']);
});

test('a model that settings no longer name is gone, also while the list is away', async () => {
  listed = ['a', 'both'];
  const models = [{ name: 'mine', upstream: 'a', price_as: 'other' }, 'plain', 'both'];
  const made = await open(true, { models });
  await expectNames(made.gateway, ['mine', 'plain', 'both', 'a']);
  is_down = true;
  await adopted(made, true);
  // What the list had stays, under its own name.
  await expectNames(made.gateway, ['a', 'both']);
  await adopted(made, { match: ['b*'] });
  await expectNames(made.gateway, ['both']);
  await adopted(made, true);
  is_down = false;
  await expectNames(made.gateway, ['a', 'both']);
});

test('a group may name what is discovered', () => {
  const groups = (name: string) => ({
    ...settings({ match: ['qwen*'] }),
    model_groups: [{ name: 'fast', models: [name] }],
  });
  expect(checkConfig(groups('qwen3-8b')).problems).toEqual([]);
  expect(checkConfig(groups('llama')).problems).toMatchObject([{ path: 'model_groups[0].models' }]);
});

test('a target without a list names its models', () => {
  const row = { id: 'a', kind: 'bedrock', region: 'eu-west-1', auth: { key_env: 'A' } };
  const problems = (more: object) =>
    checkConfig({ providers: { targets: [{ ...row, ...more }] } }).problems;
  expect(problems({})).toMatchObject([{ path: 'providers.targets[0].models' }]);
  expect(problems({ discover: true })).toMatchObject([{ path: 'providers.targets[0].discover' }]);
});

test.each([{}, { shape: 'anthropic' }, { api_version: '2024-10-21' }])(
  'Azure lists what could be deployed, so its deployments are named: %j',
  (more) => {
    const row = { id: 'a', kind: 'azure', resource: 'acme', auth: { key_env: 'A' }, ...more };
    for (const models of [{}, { models: ['prod-54'] }]) {
      const targets = [{ ...row, ...models, discover: true }];
      expect(checkConfig({ providers: { targets } }).problems).toEqual([
        {
          path: 'providers.targets[0].discover',
          message: 'finds no list on this wire of the kind azure: name the "models".',
        },
      ]);
    }
    const targets = [{ ...row, models: ['prod-54'] }];
    expect(checkConfig({ providers: { targets } }).problems).toEqual([]);
  },
);

test('a name that no line can hold is none, and one that stands twice is one', async () => {
  listed = [
    'a',
    'b\nc',
    'd e',
    '\u0000',
    'f\u202e',
    '',
    'x'.repeat(257),
    'a',
    '__proto__',
    'constructor',
  ];
  const { gateway } = await open(true);
  await expectNames(gateway, ['a', '__proto__', 'constructor']);
});

test.each([
  ['*', 'anything', true],
  ['a*', 'a', true],
  ['a*a', 'a', false],
  ['a*b*c', 'a-b-b-c', true],
  ['a*bc*c', 'abc', false],
  ['*.5', 'gpt-4.5', true],
  ['*.5', 'gpt-4x5', false],
  ['a**b', 'ab', true],
  ['a', 'ab', false],
  // Found by trying each place of each star, this one takes years.
  [`${'*a'.repeat(100)}*b`, 'a'.repeat(250), false],
])('the pattern %s of %s: %s', (pattern, name, is_taken) => {
  expect(discoveryOf({ discover: { match: [pattern], models_max: 1 } })?.takes(name)).toBe(
    is_taken,
  );
});

test("Anthropic's list is asked for in one page", async () => {
  const paths: string[] = [];
  const other = createServer((req, res) => {
    paths.push(req.url ?? '');
    res.end(JSON.stringify({ data: [{ id: 'claude', type: 'model' }], has_more: false }));
  });
  const at = `http://127.0.0.1:${await listen(other, 0)}`;
  for (const query of [{}, { query: { a: 'b' } }]) {
    const row = { kind: 'anthropic', auth: { key_env: 'TEST_MODELS_KEY' }, base_url: at, ...query };
    await open(true, row);
  }
  await until(() => paths.length > 1);
  expect(paths).toEqual(['/v1/models?limit=1000', '/v1/models?limit=1000&a=b']);
  other.closeAllConnections();
  other.close();
});

test.each([
  ['together', [{ id: 'a/b' }, { id: 'c' }], ['a/b', 'c']],
  ['gemini', { data: [{ id: 'models/gemini-4' }, { id: 'gemini-5' }] }, ['gemini-4', 'gemini-5']],
  ['vllm', { data: [{ id: 'models/mine' }] }, ['models/mine']],
  ['vllm', 'no JSON', []],
  ['vllm', null, []],
])('the list of %s is read as it writes it: %j', async (kind, answer, names) => {
  const other = createServer((_, res) =>
    res.end(typeof answer === 'string' ? answer : JSON.stringify(answer)),
  );
  const at = `http://127.0.0.1:${await listen(other, 0)}/v1`;
  const { gateway } = await open(true, {
    ...{ kind, base_url: at, auth: { key_env: 'TEST_MODELS_KEY' } },
  });
  await expectNames(gateway, names);
  other.closeAllConnections();
  other.close();
});

test('a list that never ends is left after its bound, and what was known stays', async () => {
  let written = 0;
  let is_left = false;
  const other = createServer((_, res) => {
    const more = () => {
      written += 65_536;
      if (!res.destroyed && res.write(' '.repeat(65_536))) setImmediate(more);
      else res.once('drain', more);
    };
    res.on('close', () => {
      is_left = true;
    });
    res.write('{"data":[{"id":"a"},');
    more();
  });
  const at = `http://127.0.0.1:${await listen(other, 0)}/v1`;
  const { gateway } = await open(true, { base_url: at, models: ['known'] });
  await until(() => is_left);
  await expectNames(gateway, ['known']);
  expect(written).toBeGreaterThan(4 * 1_048_576);
  other.closeAllConnections();
  other.close();
});

test('a list diverts no name that another provider serves, nor that of a group', async () => {
  listed = ['gpt-5.4', 'mine', 'best'];
  const targets = [
    { id: 'openai', kind: 'openai', auth: 'none', base_url, models: ['gpt-5.4'] },
    { id: 'own', kind: 'vllm', base_url, auth: 'none', discover: true },
  ];
  const model_groups = [{ name: 'best', models: ['gpt-5.4'] }];
  const { gateway } = await world.openGateway({
    settings: {
      providers: {
        targets: [
          { ...targets[0], kind: 'compatible', provider: 'openai', shape: 'openai' },
          targets[1],
        ],
      },
      model_groups,
    },
  });
  const { providers } = gateway.snapshot;
  const family = { name: 'chat_completions', shapes: ['openai' as const] };
  const waysTo = (name: string) => providers.route(name, family, null)?.prices;
  expect(waysTo('gpt-5.4')).toEqual([{ provider: 'openai', model: 'gpt-5.4' }]);
  expect(waysTo('best')).toEqual([{ provider: 'openai', model: 'gpt-5.4' }]);
  expect(waysTo('mine')).toEqual([{ provider: 'vllm', model: 'mine' }]);
});
