import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { stringify } from 'yaml';
import { blankPrice } from '../../domain/ledger/pricing';
import { demoModels } from '../../sandbox/demo/models';
import { startApi, type TestApi } from '../support/api';
import { makePrice } from '../support/ledger';

let api: TestApi;
let folder: string;
const seeded = { provider: 'openai', models: ['gpt-4o-mini', 'text-embedding-3-small'] } as const;

beforeAll(async () => {
  api = await startApi();
  folder = mkdtempSync(path.join(tmpdir(), 'svc-demo-'));
  for (const model of ['priced-1', 'family-*'])
    await makePrice(api.db, { ...blankPrice, tiers: null, model, input_per_1m: 1 });
});

afterAll(async () => {
  rmSync(folder, { recursive: true });
  await api.close();
});

function named(...targets: object[]) {
  const file = path.join(folder, 'gateway.yaml');
  const whole = targets.map((target, at) =>
    'kind' in target
      ? { id: `t${at}`, ...target }
      : {
          ...{ id: `t${at}`, provider: 'openai', shape: 'openai', base_url: 'http://127.0.0.1:1' },
          ...target,
        },
  );
  writeFileSync(file, stringify({ providers: { targets: whole } }));
  return demoModels(file, api.url, { ...seeded, models: [...seeded.models] });
}

test.each<[string, object[], object]>([
  [
    'a priced chat model goes before one without a price',
    [{ models: ['none-1', 'priced-1', 'text-embedding-3-large'] }],
    { provider: 'openai', models: ['priced-1', 'text-embedding-3-large'], is_priced: true },
  ],
  [
    'a price may be that of a family of models',
    [{ models: ['family-7'] }],
    { provider: 'openai', models: ['family-7'], is_priced: true },
  ],
  [
    'where none has a price, the first one is named and that is said',
    [{ provider: 'elsewhere', models: ['whisper-1', 'priced-1', 'none-1'] }],
    { provider: 'elsewhere', models: ['priced-1'], is_priced: false },
  ],
  [
    'targets of another wire are not named',
    [{ shape: 'anthropic', models: ['priced-1'] }, { models: ['none-1'] }],
    { provider: 'openai', models: ['none-1'], is_priced: false },
  ],
  [
    'a kind stands for provider and wire, a model of three names for its price',
    [
      { kind: 'anthropic', auth: { key_env: 'NONE' }, models: ['claude'] },
      {
        ...{ kind: 'openai', auth: { key_env: 'NONE' } },
        models: ['none-1', { name: 'mine', upstream: 'theirs', price_as: 'priced-1' }],
      },
    ],
    { provider: 'openai', models: ['mine'], is_priced: true },
  ],
  [
    'where no chat is served, those of the seed stand',
    [{ models: ['text-embedding-3-small'] }],
    { ...seeded, is_priced: true },
  ],
])('the printed calls name models of the configuration: %s', async (_, targets, expected) => {
  expect(await named(...targets)).toEqual(expected);
});
