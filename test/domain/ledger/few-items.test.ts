import { randomUUID } from 'node:crypto';
import fc from 'fast-check';
import { audit } from '../../../domain/ledger/audit';
import type * as calls from '../../../domain/ledger/calls';
import * as constraints from '../../../domain/ledger/constraints';
import * as organizations from '../../../domain/people/organizations';
import { type Db, many, one } from '../../../domain/sql';
import { runBothWays } from '../../support/both-ways';
import { openTestDatabase } from '../../support/database';
import { issueKey } from '../../support/keys';
import {
  credit,
  makeOrg,
  makeOverdue,
  makePrice,
  reserveBody,
  settleBody,
  type TestOrg,
  TOKEN,
  usage,
} from '../../support/ledger';
import { makeFiveBudgets } from '../budgets/making';

let db: Db;
let close: () => Promise<void>;

beforeAll(async () => {
  ({ db, close } = await openTestDatabase());
  await many(db, `insert into exchange_rates values ('EUR', 0.9, now())`);
  for (const [model, columns] of Object.entries(prices)) await makePrice(db, { model, ...columns });
});

afterAll(() => close());

const prices: Record<string, Record<string, unknown>> = {
  plain: {},
  fees: {
    per_request: 0.00001,
    minimum: 0.00003,
    cached_input_per_1m: 0.5,
    per_web_search: 0.00001,
  },
  free: { free: true },
  short: { max_output_tokens: 5 },
  tiers: {
    service_tiers: JSON.stringify({ flex: 0.5, priority: { input_per_1m: 3 } }),
    tiers: JSON.stringify([{ above_prompt_tokens: 20, input_per_1m: 4, output_per_1m: 5 }]),
  },
  'wild*': {},
};
const models = ['plain', 'plain', 'plain', 'fees', 'free', 'short', 'tiers', 'wildcat', 'unknown'];

interface World extends TestOrg {
  keys: Record<'good' | 'ended', { key_id: string; secret_id: string }>;
  agents: string[];
  foreign: TestOrg;
  holds: { id: string; body: calls.Reserve }[];
}

/** A caller's organization: little money, a key with a budget, agents with and without caps. */
async function makeWorld(columns: Record<string, unknown>, with_budgets: boolean): Promise<World> {
  const org = await makeOrg(db, columns);
  const { org_id } = org;
  const agents = await Promise.all(
    ['free', 'capped', 'warned'].map((name) => organizations.createAgent(db, org_id, name)),
  );
  const [free = '', capped = '', warned = ''] = agents.map(({ id }) => id);
  const cap = { provider: 'openai', interval: 'month' } as const;
  const cost = {
    ...cap,
    constraint_type: 'cost',
    max_value: 0.0002,
    enforcement_mode: 'reject',
  } as const;
  const count = { ...cap, constraint_type: 'responses', max_value: 4 } as const;
  await constraints.create(db, { org_id, agent_id: capped }, { ...cost, model_pattern: '*' });
  await constraints.create(
    db,
    { org_id, agent_id: capped },
    { ...count, model_pattern: 'plain', enforcement_mode: 'reject' },
  );
  await constraints.create(
    db,
    { org_id, agent_id: warned },
    { ...count, model_pattern: 'p*', enforcement_mode: 'warn' },
  );
  const key = async (is_ended: boolean) => {
    const { id: key_id } = await issueKey(db, org_id, {
      token_type: 'gateway',
      max_budget_nanos: 400n * TOKEN,
    });
    const { secret_id } = await one<{ secret_id: string }>(
      db,
      'select id as secret_id from token_secrets where token_id = :key_id',
      { key_id },
    );
    const ended_at = is_ended ? new Date() : null;
    await many(db, 'update tokens set revoked_at = :ended_at where id = :key_id', {
      key_id,
      ended_at,
    });
    return { key_id, secret_id };
  };
  const keys = { good: await key(false), ended: await key(true) };
  if (with_budgets) await makeFiveBudgets(db, org, keys.good.key_id, 100);
  return { ...org, keys, agents: [free, capped, warned], foreign: await makeOrg(db), holds: [] };
}

/** Mostly what calls usually are; now and then what few are. */
const seldom = <T>(arbitrary: fc.Arbitrary<T>, weight = 14) =>
  fc.oneof({ weight, arbitrary: fc.constant(undefined) }, { weight: 1, arbitrary });
const often = <T>(usual: T[], few: T[]) =>
  fc.oneof(
    { weight: 9, arbitrary: fc.constantFrom(...usual) },
    { weight: 1, arbitrary: fc.constantFrom(...few) },
  );
const reserve = fc.record({
  tokens: fc.integer({ min: 1, max: 60 }),
  completion: fc.constantFrom(0, 1, 10, undefined),
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
});
const settle = fc.record({
  pick: fc.nat(30),
  prompt: fc.integer({ min: 0, max: 80 }),
  completion: fc.integer({ min: 0, max: 20 }),
  more: seldom(
    fc.constantFrom({ cached_tokens: 1 }, { web_searches: 2 }, { completion_tokens: 9_000_000 }),
    6,
  ),
  tier: seldom(fc.constantFrom('default', 'default', 'flex', 'odd'), 5),
  outcome: often<'completed' | 'failed' | 'canceled'>(['completed'], ['failed', 'canceled']),
  by: often<'id' | 'request' | 'nothing known'>(['id'], ['request', 'nothing known']),
  model: seldom(fc.constantFrom('plain', 'fees'), 5),
  source: seldom(fc.constantFrom('upstream', 'estimated'), 2),
});
const command = fc.oneof(
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
  {
    weight: 1,
    arbitrary: fc.record({
      do: fc.constant('keep' as const),
      tokens: fc.integer({ min: 1, max: 50 }),
    }),
  },
);
type Command = typeof command extends fc.Arbitrary<infer T> ? T : never;
type Given<Of> = Of extends fc.Arbitrary<infer T> ? T : never;

function reserveOf(world: World, given: Given<typeof reserve>): calls.Reserve {
  const { keys, agents, foreign, holds } = world;
  const repeated =
    given.repeats === undefined ? undefined : holds[given.repeats % Math.max(holds.length, 1)];
  if (repeated) return repeated.body;
  const { good, ended } = keys;
  const key = {
    none: {},
    good,
    ended,
    'other secret': { ...good, secret_id: ended.secret_id },
    unknown: { key_id: 'key_unknown' },
  }[given.key];
  return reserveBody(world.org_id, given.tokens, {
    model: given.model,
    max_completion_tokens: given.completion,
    user_id:
      given.as === 'foreign user'
        ? foreign.user_id
        : /user|both/.test(given.as)
          ? world.user_id
          : undefined,
    team_id:
      given.as === 'foreign team'
        ? foreign.team_id
        : /team|both/.test(given.as)
          ? world.team_id
          : undefined,
    ...key,
    agent_id: given.agent === undefined ? undefined : agents[given.agent],
    service_tier: given.service_tier,
    region: given.region,
    units: given.units,
    fallbacks: given.fallback ? [{ provider: 'openai', model: given.fallback }] : undefined,
    session_id: given.session ? 'session' : undefined,
    tags: given.agent === undefined ? ['nightly', 'report'] : undefined,
    session_limits: given.session ? { max_actions: given.session } : undefined,
    family: 'chat.completions',
  });
}

/** One of the last holds: few of the others are open. */
function picked({ holds }: World, number: number) {
  return holds[holds.length - 1 - (number % Math.min(holds.length || 1, 3))];
}

function settleOf(world: World, given: Given<typeof settle>): calls.Settle | undefined {
  const hold = picked(world, given.pick);
  if (hold === undefined) return undefined;
  const by = {
    id: [hold.id, undefined],
    request: [undefined, hold.body.request_id],
    'nothing known': [undefined, randomUUID()],
  };
  const [reservation_id, request_id] = by[given.by];
  const counts = {
    prompt_tokens: given.prompt,
    completion_tokens: given.completion,
    service_tier: given.tier,
    ...given.more,
  };
  return settleBody(world.org_id, null, 0, {
    reservation_id,
    request_id,
    outcome: given.outcome,
    usage: given.prompt > (given.outcome === 'completed' ? 4 : 40) ? usage(counts) : undefined,
    usage_source: given.source,
    ...(given.model && { provider: 'openai', model: given.model }),
  });
}

const shortWays = { settle: 0, reserve: 0 };

async function run(world: World, given: Command): Promise<void> {
  const hold = 'pick' in given ? picked(world, given.pick) : undefined;
  const wallets = [world.user_wallet, world.team_wallet, world.org_wallet];
  switch (given.do) {
    case 'credit':
      return credit(db, world.org_id, wallets[given.to] as string, BigInt(given.tokens) * TOKEN);
    case 'keep':
      await many(db, 'update wallets set kept_nanos = :kept where id = :id', {
        id: world.org_wallet,
        kept: BigInt(given.tokens) * TOKEN,
      });
      return;
    case 'lapse':
      if (hold) await makeOverdue(db, hold.id);
      return;
    case 'call': {
      const pair = {
        settle: 'settle' in given && given.settle ? settleOf(world, given.settle) : undefined,
        reserve: 'reserve' in given && given.reserve ? reserveOf(world, given.reserve) : undefined,
      };
      const { alone, batch, answers, taken } = await runBothWays(db, world.org_id, pair);
      expect(alone).toEqual(batch);
      shortWays.settle += Number(taken?.settle);
      shortWays.reserve += Number(taken?.reserve);
      const held = answers.find(({ op, code }) => op === 'reserve' && code === null);
      if (held && pair.reserve)
        world.holds.push({ id: held.reservation_id as string, body: pair.reserve });
    }
  }
}

test('one item alone is answered and written as any batch would, whatever it is', async () => {
  const org = fc.record({
    currency: fc.constantFrom('USD', 'EUR'),
    reserve_buffer_pct: fc.constantFrom(0, 7.5),
    low_balance_threshold_nanos: fc.constantFrom(0, Number(50n * TOKEN)),
    default_max_completion_tokens: fc.constantFrom(4, 30),
  });
  const property = fc.asyncProperty(
    org,
    fc.boolean(),
    fc.array(command, { minLength: 10, maxLength: 40, size: 'max' }),
    async (columns, with_budgets, steps) => {
      const world = await makeWorld(columns, with_budgets);
      await credit(db, world.org_id, world.org_wallet, 200n * TOKEN);
      for (const given of steps) await run(world, given);
      expect((await audit(db)).broken).toEqual([]);
    },
  );
  const limits = { interruptAfterTimeLimit: 90_000, markInterruptAsFailure: false };
  await fc.assert(property, { numRuns: 30, endOnFailure: true, ...limits });
  // Both functions for one item did a part of it.
  expect(shortWays.settle).toBeGreaterThan(10);
  expect(shortWays.reserve).toBeGreaterThan(10);
}, 120_000);
