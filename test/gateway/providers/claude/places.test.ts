import { readFileSync } from 'node:fs';
import path from 'node:path';
import { gunzipSync } from 'node:zlib';
import { readCatalog } from '../../../../domain/prices/catalogs/read';
import { servedIn } from '../../../../domain/prices/factors';
import * as imports from '../../../../domain/prices/imports';
import { makePlan } from '../../../../domain/prices/plan';
import { ask, openSold, targets, world } from '../sold';

// One model at four places, by the prices that an import of the same configuration makes.

const sonnet = 'claude-sonnet-4-5';
const dated = `${sonnet}-20250929-v1:0`;

function rows() {
  const all = targets();
  const [aws, foundry] = ['aws-claude', 'foundry'].map((id) => all.find((one) => one.id === id));
  const at = (name: string, upstream: string) => ({ name, upstream, price_as: upstream });
  return [
    {
      ...aws,
      models: [
        at('claude-everywhere', `global.anthropic.${dated}`),
        at('claude-in-europe', `eu.anthropic.${dated}`),
        at('claude-here', `anthropic.${dated}`),
      ],
    },
    {
      ...{ ...foundry, provider: 'azure-eu', price_factor: 1.1 },
      models: [{ name: 'claude-at-azure', upstream: 'claude-opus-5-5', price_as: sonnet }],
    },
  ];
}

let url: string;
beforeAll(async () => {
  const file = path.join(__dirname, '../../../domain/prices/files/litellm-1.110.2.json.gz');
  const text = gunzipSync(readFileSync(file)).toString('utf8');
  const catalog = await readCatalog(text, { name: 'litellm.json', dated: null });
  const { db } = world.api;
  const { served, factors } = await servedIn(db, { providers: { targets: rows() } });
  const plan = await makePlan(db, [catalog], { served, whole: [] }, factors, []);
  expect(plan.missing).toEqual([]);
  const take = plan.rows.map(({ provider, model }) => `${provider}/${model}`);
  await imports.apply(db, plan, { take, free: [] }, 'a');
  url = await openSold({}, rows());
});

// Nanos of a token that is new, cached, written.
test.each<[string, [bigint, bigint, bigint]]>([
  ['claude-everywhere', [3_000n, 300n, 15_000n]],
  ['claude-in-europe', [3_300n, 330n, 16_500n]],
  ['claude-here', [3_000n, 300n, 15_000n]],
  ['claude-at-azure', [3_300n, 330n, 16_500n]],
])('%s costs what its place does, to a nano', async (model, [fresh, cached, written]) => {
  for (const stream of [false, true]) {
    const text = 'Hello [[fault:usage prompt=1001 completion=41 cached=9003]]';
    const { status, charge } = await ask(model, text, { at: url, stream });
    expect(status).toBe(200);
    const { actual_cost_nanos } = await charge();
    expect(actual_cost_nanos).toBe(1_001n * fresh + 9_003n * cached + 41n * written);
  }
});
