import fc from 'fast-check';

// What the calls of the test of few items are: reserves, settles, and what happens between them.

const models = [
  'plain',
  'plain',
  'plain',
  'plain',
  'plain',
  'fees',
  'free',
  'short',
  'tiers',
  'wildcat',
  'unknown',
];

/** Mostly what calls usually are; now and then what few are. */
const seldom = <T>(arbitrary: fc.Arbitrary<T>, weight = 14) =>
  fc.oneof({ weight, arbitrary: fc.constant(undefined) }, { weight: 1, arbitrary });
const often = <T>(usual: T[], few: T[]) =>
  fc.oneof(
    { weight: 9, arbitrary: fc.constantFrom(...usual) },
    { weight: 1, arbitrary: fc.constantFrom(...few) },
  );
export const reserve = fc.record({
  tokens: fc.integer({ min: 1, max: 60 }),
  completion: fc.constantFrom(0, 1, 10, undefined),
  choices: seldom(fc.constantFrom(1, 2, 3), 2),
  model: fc.constantFrom(...models),
  as: often(['both', 'user', 'team', 'nobody'], ['foreign user', 'foreign team']),
  key: often(['good', 'none'], ['ended', 'other secret', 'unknown']),
  agent: fc.constantFrom(undefined, 0, 1, 1, 2),
  service_tier: seldom(fc.constantFrom('default', 'flex', 'odd'), 3),
  region: seldom(fc.constantFrom('global', 'mars')),
  units: seldom(fc.constantFrom({ web_searches: 1 }, { seconds: 3, characters: 20 })),
  fallback: seldom(fc.constantFrom('plain', 'fees', 'unknown'), 6),
  session: seldom(fc.integer({ min: 1, max: 3 })),
  repeats: seldom(fc.nat(30)),
  own_keys: fc.constantFrom(true, undefined),
});
export const settle = fc.record({
  pick: fc.nat(30),
  prompt: fc.integer({ min: 0, max: 80 }),
  completion: fc.integer({ min: 0, max: 20 }),
  more: seldom(
    fc.constantFrom({ cached_tokens: 1 }, { web_searches: 2 }, { completion_tokens: 9_000_000 }),
    10,
  ),
  tier: seldom(fc.constantFrom('default', 'default', 'flex', 'odd'), 10),
  outcome: often<'completed' | 'failed' | 'canceled'>(['completed'], ['failed', 'canceled']),
  by: often<'id' | 'request' | 'nothing known'>(['id'], ['request', 'nothing known']),
  model: seldom(fc.constantFrom('plain', 'fees'), 10),
  source: seldom(fc.constantFrom('upstream', 'estimated'), 2),
  by_own: seldom(fc.constant(true), 2),
  told: seldom(fc.constantFrom('0', '0.0012', '12.5'), 2),
});
export const command = fc.oneof(
  { weight: 5, arbitrary: fc.record({ do: fc.constant('call' as const), reserve }) },
  { weight: 4, arbitrary: fc.record({ do: fc.constant('call' as const), settle }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constant('call' as const), settle, reserve }) },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constant('credit' as const),
      to: fc.nat(2),
      tokens: fc.integer({ min: 1, max: 150 }),
    }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('lapse' as const), pick: fc.nat(30) }) },
  // What an organization owes by then stays, although its calls cost nothing.
  {
    weight: 1,
    arbitrary: fc.record({
      do: fc.constant('factor' as const),
      price_factor: fc.constantFrom(0, 1, 1, 0.76),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      do: fc.constant('keep' as const),
      tokens: fc.integer({ min: 1, max: 50 }),
    }),
  },
);

/** What an arbitrary gives. */
export type Given<Of> = Of extends fc.Arbitrary<infer T> ? T : never;
