import { type Amount, amounts, isNeeded } from '../../domain/ledger/price-lists';
import * as pricing from '../../domain/ledger/pricing';
import * as imports from '../../domain/prices/imports';
import { makePlan } from '../../domain/prices/plan';
import type { Db } from '../../domain/sql';
import { builtInCatalog } from '../../price-catalogs/built-in';

// What tools that a provider runs cost by number, whichever model calls them.
const openai_tools = { per_web_search: 0.01, per_file_search: 0.0025, per_container: 0.03 };

// The providers' public list prices in USD, with what no catalog says of them.
const prices: (Partial<pricing.Price> & { provider: string; model: string })[] = [
  {
    provider: 'openai',
    model: 'gpt-4o-mini',
    input_per_1m: 0.15,
    cached_input_per_1m: 0.075,
    output_per_1m: 0.6,
    max_output_tokens: 16_384,
    ...openai_tools,
  },
  {
    provider: 'openai',
    model: 'gpt-4o',
    input_per_1m: 2.5,
    cached_input_per_1m: 1.25,
    output_per_1m: 10,
    max_output_tokens: 16_384,
    service_tiers: {
      priority: { input_per_1m: 4.25, cached_input_per_1m: 2.125, output_per_1m: 17 },
    },
    ...openai_tools,
  },
  {
    provider: 'openai',
    model: 'o4-mini',
    input_per_1m: 1.1,
    cached_input_per_1m: 0.275,
    output_per_1m: 4.4,
    max_output_tokens: 100_000,
    reasoning: true,
    service_tiers: {
      flex: { input_per_1m: 0.55, cached_input_per_1m: 0.138, output_per_1m: 2.2 },
      priority: { input_per_1m: 2, cached_input_per_1m: 0.5, output_per_1m: 8 },
    },
    ...openai_tools,
  },
  { provider: 'openai', model: 'text-embedding-3-small', input_per_1m: 0.02 },
  {
    provider: 'anthropic',
    model: 'claude-sonnet-4-5',
    input_per_1m: 3,
    output_per_1m: 15,
    cached_input_per_1m: 0.3,
    cache_write_per_1m: 3.75,
    cache_write_1h_per_1m: 6,
    max_output_tokens: 64_000,
    tiers: [
      {
        above_prompt_tokens: 200_000,
        input_per_1m: 6,
        output_per_1m: 22.5,
        cached_input_per_1m: 0.6,
        cache_write_per_1m: 7.5,
        cache_write_1h_per_1m: 12,
      },
    ],
    per_web_search: 0.01,
    per_container: 0.05,
  },
  { provider: 'openai', model: 'whisper-1', per_minute: 0.006 },
  {
    provider: 'openai',
    model: 'gpt-4o-mini-transcribe',
    input_per_1m: 1.25,
    audio_input_per_1m: 3,
    output_per_1m: 5,
  },
  {
    provider: 'openai',
    model: 'gpt-4o-mini-tts',
    input_per_1m: 0.6,
    audio_output_per_1m: 12,
    per_minute: 0.015,
  },
  { provider: 'openai', model: 'omni-moderation-latest', free: true },
  { provider: 'mcp', model: '*', per_request: 0.001 },
];

/**
 * The demo's prices: the figures of the catalog where it says the same, with what it leaves out;
 * all others by hand. Prices that are there stay as they are.
 */
export async function seedPrices(trx: Db): Promise<void> {
  const present = await pricing.list(trx);
  const missing = prices.filter(
    ({ provider, model }) =>
      !present.some((price) => price.provider === provider && price.model === model),
  );
  const plan = await makePlan(trx, [await builtInCatalog()], { served: missing, whole: [] });
  const agreed = plan.rows.filter(({ price, ...row }) => {
    const wanted = missing.find((one) => one.provider === row.provider && one.model === row.model);
    return amounts.every((name) => isSame(name, wanted?.[name], price.amounts[name]));
  });
  const consent = { take: [], free: [], skip_asking: true };
  if (agreed.length > 0) await imports.apply(trx, { ...plan, rows: agreed }, consent, 'npm start');
  const imported = await pricing.list(trx);
  for (const price of missing) {
    const found = imported.find(
      ({ provider, model }) => provider === price.provider && model === price.model,
    );
    const effective_from = new Date(Date.now() - 1_000);
    if (found === undefined)
      await pricing.create(trx, { ...pricing.blankPrice, ...price, effective_from });
    else await pricing.update(trx, found.id, { ...price, source: 'import' });
  }
}

/**
 * True unless both say an amount and it is not the same; each price says what goes in and comes
 * out, if only that it costs nothing.
 */
function isSame(
  name: Amount,
  wanted: pricing.Price[Amount] | undefined,
  listed: string | undefined,
): boolean {
  if (listed === undefined) return true;
  return isNeeded(name)
    ? Number(listed) === (wanted ?? 0)
    : wanted == null || Number(listed) === wanted;
}
