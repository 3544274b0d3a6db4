import { createServer, type Server } from 'node:http';
import { adopt } from '../../../gateway/adopt';
import type { Snapshot } from '../../../gateway/call/snapshot';
import { openSnapshot } from '../../../gateway/call/snapshot';
import { checkConfig, parseSettings } from '../../../gateway/config/settings';
import { listen } from '../../../runtime/listen';
import { openWorld, type TestGateway, type World } from '../../support/gateway';

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
  expect(namesOf(gateway.snapshot)).toEqual(['mine', 'qwen3-8b', 'qwen3-32b']);
  const all = await open(true);
  expect(namesOf(all.gateway.snapshot)).toEqual(listed);
});

test('a list that is empty, too long or away leaves what was known', async () => {
  listed = ['a', 'b'];
  const made = await open({ models_max: 3 });
  for (const change of [[], Array.from({ length: 10_000 }, (_, at) => `m${at}`)]) {
    listed = change;
    await adopted(made, { models_max: 3 });
    expect(namesOf(made.gateway.snapshot)).toEqual(['a', 'b']);
  }
  is_down = true;
  const before = asked;
  await adopted(made, { models_max: 3 });
  is_down = false;
  expect([namesOf(made.gateway.snapshot), asked]).toEqual([['a', 'b'], before + 1]);
  listed = ['a', 'c'];
  await adopted(made, { models_max: 3 });
  expect(namesOf(made.gateway.snapshot)).toEqual(['a', 'c']);
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
