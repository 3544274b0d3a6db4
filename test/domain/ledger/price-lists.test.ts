import type * as calls from '../../../domain/ledger/calls';
import { amounts } from '../../../domain/ledger/price-lists';
import { type Db, one } from '../../../domain/sql';
import { openTestDatabase } from '../../support/database';
import { pick, randomOf, seed } from '../../support/random';

let db: Db;
let close: () => Promise<void>;

beforeAll(async () => {
  ({ db, close } = await openTestDatabase());
});

afterAll(() => close());

type Row = Record<string, unknown>;
type Counts = Partial<calls.Usage>;

/** What a usage costs in USD, as decimal text; with the sum of its lines. */
async function billOf(price: Row, counts: Counts) {
  const row = { model: 'm', free: false, input_per_1m: 0, output_per_1m: 0, ...price };
  const usage = { prompt_tokens: 0, completion_tokens: 0, ...counts };
  return one<{ cost: string; total: string; lines: Row[] | null }>(
    db,
    `select trim_scale(usage_cost(p, u) * 0.000000001)::text as cost,
       (select trim_scale(coalesce(sum(l.amount), 0))::text from price_lines(p, u) as l) as total,
       (select jsonb_agg(to_jsonb(l)) from price_lines(p, u) as l) as lines
     from jsonb_populate_record(null::model_prices, :price) as p,
       jsonb_populate_record(null::usage_counts, :usage) as u`,
    { price: JSON.stringify(row), usage: JSON.stringify(usage) },
  );
}

async function costOf(price: Row, counts: Counts): Promise<number> {
  const { cost, total } = await billOf(price, counts);
  expect(total).toBe(cost);
  return Number(cost);
}

const claude = {
  input_per_1m: 3,
  output_per_1m: 15,
  cached_input_per_1m: 0.3,
  cache_write_per_1m: 3.75,
  cache_write_1h_per_1m: 6,
  tiers: [{ above_prompt_tokens: 200_000, input_per_1m: 6, output_per_1m: 22.5 }],
};
const explicit = {
  ...claude,
  tiers: [
    {
      ...claude.tiers[0],
      cached_input_per_1m: 0.6,
      cache_write_per_1m: 7.5,
      cache_write_1h_per_1m: 12,
    },
  ],
};
const long = { prompt_tokens: 300_000, completion_tokens: 1_000 };

test.each([
  ['read from the cache', { cached_tokens: 290_000 }, 0.2565],
  ['written for five minutes', { cache_write_tokens: 290_000 }, 2.2575],
  ['written for an hour', { cache_write_1h_tokens: 290_000 }, 3.5625],
])('a tier is a whole price list: 290,000 tokens %s', async (_, counts, cost) => {
  // What the tier leaves out moves with its input, so both ways to write it cost the same.
  expect(await costOf(claude, { ...long, ...counts })).toBe(cost);
  expect(await costOf(explicit, { ...long, ...counts })).toBe(cost);
});

const short = { prompt_tokens: 1_000, completion_tokens: 100 };
const S = {
  input_per_1m: 10,
  output_per_1m: 40,
  cached_input_per_1m: 1,
  per_tool_call: 0.01,
};

test.each<[string, Row, Counts, number]>([
  ['at the threshold the base holds', claude, { prompt_tokens: 200_000 }, 0.6],
  ['one token above it the tier', claude, { prompt_tokens: 200_001 }, 1.200006],
  [
    'the highest tier that is passed',
    { ...S, tiers: [100, 500, 5_000].map((n) => ({ above_prompt_tokens: n, input_per_1m: n })) },
    { prompt_tokens: 1_000 },
    0.5,
  ],
  [
    'a tier may name one amount only',
    { ...S, tiers: [{ above_prompt_tokens: 10, cached_input_per_1m: 5 }] },
    { ...short, cached_tokens: 1_000 },
    0.009,
  ],
  [
    'output kinds move with the output of a tier',
    {
      ...S,
      audio_output_per_1m: 80,
      tiers: [{ above_prompt_tokens: 10, input_per_1m: 10, output_per_1m: 60 }],
    },
    { prompt_tokens: 11, completion_tokens: 100, audio_output_tokens: 100 },
    0.01211,
  ],
  [
    'a base without input moves nothing',
    { cached_input_per_1m: 1, tiers: [{ above_prompt_tokens: 10, input_per_1m: 2 }] },
    { prompt_tokens: 1_000, cached_tokens: 500 },
    0.0015,
  ],
  ['pictures that are read', { ...S, image_input_per_1m: 20 }, pictures(), 0.024],
  ['pictures without a price are text', S, pictures(), 0.014],
  [
    'pictures that are made',
    { ...S, image_output_per_1m: 400 },
    { ...short, completion_tokens: 1_300, image_output_tokens: 1_290 },
    0.5264,
  ],
  [
    'video in and out',
    { ...S, video_input_per_1m: 20, video_output_per_1m: 80 },
    { ...short, video_input_tokens: 500, video_output_tokens: 50 },
    0.021,
  ],
  ['a web search', { ...S, per_web_search: 0.025 }, { ...short, web_searches: 2 }, 0.064],
  ['a file search', { ...S, per_file_search: 0.0025 }, { ...short, file_searches: 2 }, 0.019],
  ['a container', { ...S, per_container: 0.03 }, { ...short, containers: 1 }, 0.044],
  [
    'kinds without a price',
    S,
    { ...short, web_searches: 1, file_searches: 1, containers: 1 },
    0.044,
  ],
  [
    'a kind that is free on purpose',
    { ...S, per_web_search: 0 },
    { ...short, web_searches: 3 },
    0.014,
  ],
  ['calls of no kind', { ...S, per_web_search: 1 }, { ...short, tool_calls: 1 }, 0.024],
  ['pages', { per_page: 0.001 }, { pages: 7 }, 0.007],
  ['the minimum', { ...S, minimum: 0.02 }, short, 0.02],
  ['above the minimum', { ...S, minimum: 0.01 }, short, 0.014],
  ['the least length', { per_minute: 0.6, minimum_seconds: 10 }, { seconds: 1 }, 0.1],
  ['a longer sound', { per_minute: 0.6, minimum_seconds: 10 }, { seconds: 30 }, 0.3],
  ['no sound has no length', { ...S, per_minute: 0.6, minimum_seconds: 10 }, short, 0.014],
  ['what is free', { ...S, free: true, minimum: 1 }, short, 0],
])('%s', async (_, price, counts, cost) => {
  expect(await costOf(price, counts)).toBe(cost);
});

function pictures(): Counts {
  return { ...short, image_input_tokens: 1_000 };
}

const tiered = {
  ...S,
  per_web_search: 0.02,
  tiers: [{ above_prompt_tokens: 2_000, input_per_1m: 20, output_per_1m: 60 }],
  service_tiers: {
    flex: 0.5,
    priority: { input_per_1m: 20, output_per_1m: 100 },
    scale: { input_per_1m: 30, tiers: [{ above_prompt_tokens: 2_000, input_per_1m: 90 }] },
  },
  regions: { us: 1.1, eu: { input_per_1m: 12, per_web_search: 0.03 } },
};
const wide = { prompt_tokens: 3_000, completion_tokens: 100 };

test.each<[string, Counts, number]>([
  ['no tier of service', short, 0.014],
  ['one that is ordinary', { ...short, service_tier: 'default' }, 0.014],
  ['one without a price', { ...short, service_tier: 'ultra' }, 0.014],
  ['a factor', { ...short, service_tier: 'flex' }, 0.007],
  ['a factor on what is cached', { ...short, cached_tokens: 1_000, service_tier: 'flex' }, 0.0025],
  ['a factor leaves fees alone', { ...short, web_searches: 1, service_tier: 'flex' }, 0.027],
  ['a list', { ...short, service_tier: 'priority' }, 0.03],
  ['what a list leaves out', { ...short, cached_tokens: 1_000, service_tier: 'priority' }, 0.012],
  ['a list without its output', { ...short, service_tier: 'scale' }, 0.034],
  ['a long prompt', wide, 0.066],
  ['a long prompt by a factor', { ...wide, service_tier: 'flex' }, 0.033],
  ['a long prompt by a list, which its tier moves', { ...wide, service_tier: 'priority' }, 0.135],
  ['a long prompt by a list with tiers of its own', { ...wide, service_tier: 'scale' }, 0.274],
  ['a region', { ...short, region: 'us' }, 0.0154],
  ['a region without a price', { ...short, region: 'ap' }, 0.014],
  ['a region by a list', { ...short, web_searches: 1, region: 'eu' }, 0.046],
  ['both', { ...short, service_tier: 'flex', region: 'us' }, 0.0077],
  ['all three', { ...wide, service_tier: 'flex', region: 'us' }, 0.0363],
])('tiers of service and regions: %s', async (_, counts, cost) => {
  expect(await costOf(tiered, counts)).toBe(cost);
});

test('a bill is a list of lines', async () => {
  const { lines } = await billOf(
    { ...S, minimum: 0.1, per_minute: 0.006 },
    { ...short, cached_tokens: 400, web_searches: 2, seconds: 10 },
  );
  expect(lines).toEqual([
    { what: 'input', quantity: 600, unit_price: 0.00001, amount: 0.006 },
    { what: 'cached_input', quantity: 400, unit_price: 0.000001, amount: 0.0004 },
    { what: 'output', quantity: 100, unit_price: 0.00004, amount: 0.004 },
    { what: 'seconds', quantity: 10, unit_price: 0.0001, amount: 0.001 },
    { what: 'web_search', quantity: 2, unit_price: 0.01, amount: 0.02 },
    { what: 'minimum', quantity: 1, unit_price: 0.0686, amount: 0.0686 },
  ]);
});

const counts = [
  'cached_tokens',
  'cache_write_tokens',
  'cache_write_1h_tokens',
  'audio_input_tokens',
  'image_input_tokens',
  'video_input_tokens',
  'audio_output_tokens',
  'image_output_tokens',
  'video_output_tokens',
  'characters',
  'seconds',
  'web_searches',
  'file_searches',
  'containers',
  'pages',
  'tool_calls',
] as const;

test('the lines of any usage at any price add up to its cost', async () => {
  const random = randomOf(seed);
  const figures = () =>
    Object.fromEntries(
      amounts
        .filter(() => random() < 0.5)
        .map((name) => [name, pick(random, [0, 0.0375, 0.3, 7, 123456789.012345])]),
    );
  for (let n = 0; n < 60; n += 1) {
    const price = {
      ...figures(),
      tiers: pick(random, [null, [{ above_prompt_tokens: 5_000, ...figures() }]]),
      service_tiers: pick(random, [null, { flex: 0.5, priority: figures() }]),
      regions: pick(random, [null, { us: 1.1 }]),
    };
    const usage = {
      prompt_tokens: 9_007_199_254_740,
      completion_tokens: 9_007_199_254_740,
      ...Object.fromEntries(counts.map((name) => [name, Math.floor(random() * 3_000)])),
      service_tier: pick(random, ['flex', 'priority', 'none']),
      region: pick(random, ['us', 'none']),
    };
    const { cost, total } = await billOf(price, usage);
    expect({ price, usage, total }).toEqual({ price, usage, total: cost });
  }
});
