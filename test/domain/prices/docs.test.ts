import { parse } from 'yaml';
import { makePlan } from '../../../domain/prices/plan';
import { servedBy } from '../../../domain/prices/served';
import { builtInCatalog } from '../../../price-catalogs/built-in';
import { openTestDatabase, type TestDatabase } from '../../support/database';
import { blocksOf } from '../../support/recipes';

// Who takes over a target of the documents takes its prices with one import.

let database: TestDatabase;
beforeAll(async () => {
  database = await openTestDatabase();
});
afterAll(() => database.close());

/** Kinds of servers of one's own, which no catalog prices. */
const own = ['vllm', 'ollama', 'lmstudio', 'compatible', undefined];

const targets = blocksOf('docs/providers.md')
  .filter(({ language, text }) => language === 'yaml' && text.includes('targets:'))
  .flatMap(({ text }) => parse(text).providers.targets as { id: string; kind?: string }[])
  .filter(({ kind }) => !own.includes(kind));

test.each(targets)(
  'the catalog inside prices what the target $id of the documents serves',
  async (target) => {
    const { served, factors } = servedBy({ providers: { targets: [target] } });
    const plan = await makePlan(
      ...([database.db, [await builtInCatalog()], { served, whole: [] }, factors] as const),
    );
    expect(plan.missing.map(({ model, near }) => [model, near])).toEqual([]);
  },
);
