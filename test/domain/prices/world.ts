import { readFileSync } from 'node:fs';
import path from 'node:path';
import { gunzipSync } from 'node:zlib';
import * as pricing from '../../../domain/ledger/pricing';
import type { Catalog } from '../../../domain/prices/catalogs/catalog';
import { readCatalog } from '../../../domain/prices/catalogs/read';
import { type DiffRow, diff } from '../../../domain/prices/diff';
import { makePlan, type Served } from '../../../domain/prices/plan';
import { type Db, many } from '../../../domain/sql';
import { builtInCatalog } from '../../../price-catalogs/built-in';
import { openTestDatabase } from '../../support/database';

/** A database for tests of imports; its prices are gone before each test. */
export function openPrices() {
  const world = {} as { db: Db; close: () => Promise<void> };
  beforeAll(async () => {
    Object.assign(world, await openTestDatabase());
  });
  beforeEach(async () => {
    await many(world.db, 'delete from model_prices returning id');
    await many(world.db, 'delete from price_imports returning id');
  });
  afterAll(() => world.close());
  return {
    world,
    /** A plan of these entries in LiteLLM's format, from OpenAI. */
    async planOf(entries: Record<string, object>, served?: Served[]) {
      const catalog = await listing(entries);
      const models = served ?? Object.keys(entries).map((model) => ({ provider: 'openai', model }));
      const wanted = { served: models, whole: [] };
      return makePlan(world.db, [catalog], wanted, {}, [], await builtInCatalog());
    },
    async rowsOf(entries: Record<string, object>): Promise<Record<string, DiffRow>> {
      const { rows } = await diff(world.db, await this.planOf(entries));
      return Object.fromEntries(rows.map((row) => [row.model, row]));
    },
    byHand(model: string, figures: Partial<pricing.Price>) {
      const price = { ...pricing.blankPrice, provider: 'openai', model, ...figures };
      return pricing.create(world.db, price);
    },
    async priceOf(model: string, provider?: string) {
      const prices = await pricing.catalog(world.db);
      return prices.find(
        (price) => price.model === model && price.provider === (provider ?? price.provider),
      );
    },
  };
}

/** A yes to what does not ask. */
export const none = { take: [], free: [] };

export const usual = { input_cost_per_token: 1e-6, output_cost_per_token: 4e-6 };

/** A catalog in LiteLLM's format with these entries of OpenAI. */
export function listing(entries: Record<string, object>): Promise<Catalog> {
  const file = Object.entries(entries).map(([name, entry]) => [
    name,
    { litellm_provider: 'openai', mode: 'chat', ...entry },
  ]);
  const text = JSON.stringify(Object.fromEntries(file));
  return readCatalog(text, { name: 'made', dated: null });
}

/** LiteLLM's file as it was released. */
export function litellm(): Promise<Catalog> {
  const file = path.join(__dirname, 'files/litellm-1.110.2.json.gz');
  const text = gunzipSync(readFileSync(file)).toString('utf8');
  return readCatalog(text, { name: 'litellm-1.110.2.json', dated: null });
}
