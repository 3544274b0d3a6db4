import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync, readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { parse } from 'yaml';
import {
  providerOf,
  servedModels,
  shapeOf,
  type TargetSettings,
} from '../../../gateway/config/targets';
import { root } from '../../../runtime/root';
import { chat, gatewayKey, message, openWorld, post, type World } from '../../support/gateway';
import { makePrice } from '../../support/ledger';
import { until } from '../../support/until';

// What `npm run sandbox:providers` writes is enough for a gateway: each chat model of each kind
// answers, and is paid for.

let world: World;
let child: ChildProcess;
let url: string;
let targets: TargetSettings[];
let before: NodeJS.ProcessEnv;

beforeAll(async () => {
  before = { ...process.env };
  world = await openWorld();
  const folder = mkdtempSync(path.join(tmpdir(), 'svc-providers-'));
  child = spawn(process.execPath, ['run.cjs', 'sandbox/providers/main.ts'], {
    cwd: root,
    env: { ...process.env, DATA_DIR: folder, SANDBOX_PROVIDERS_PORT: '0' },
  });
  let output = '';
  child.stdout?.on('data', (chunk) => {
    output += chunk;
  });
  await until(() => output.includes('Variables'));
  const written = (name: string) => readFileSync(path.join(folder, 'providers', name), 'utf8');
  for (const line of written('env').trim().split('\n')) {
    const [name = '', ...value] = line.split('=');
    process.env[name] = value.join('=');
  }
  const settings = parse(written('gateway.yaml'));
  targets = settings.providers.targets;
  const named = targets.flatMap((row) =>
    servedModels(row).map(({ priced }) => `${providerOf(row)} ${priced}`),
  );
  for (const name of new Set(named)) {
    const [provider, model] = name.split(' ');
    await makePrice(world.api.db, { provider, model });
  }
  ({ url } = await world.openGateway({ settings }));
});

afterAll(async () => {
  for (const name of Object.keys(process.env)) if (!(name in before)) delete process.env[name];
  Object.assign(process.env, before);
  child.kill();
  await world.close();
});

const routes = {
  openai: '/v1/chat/completions',
  anthropic: '/v1/messages',
  gemini: '/v1/unified/chat/completions',
  converse: '/v1/unified/chat/completions',
};

test('each kind that has models answers on its own wire', async () => {
  const kinds = new Set(targets.map(({ kind }) => kind));
  expect(kinds.size).toBeGreaterThan(15);
  const caller = await gatewayKey(world.api, world.org.org_id);
  for (const row of targets) {
    const [model] = servedModels(row);
    const shape = shapeOf(row);
    const body = (shape === 'anthropic' ? message : chat)('Hello', { model: model?.name });
    const { status, text } = await post(`${url}${routes[shape]}`, caller, body);
    expect([row.id, status, status === 200 ? '' : text]).toEqual([row.id, 200, '']);
  }
});
