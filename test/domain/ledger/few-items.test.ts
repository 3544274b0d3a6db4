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
  makeOwnKey,
  makePrice,
  reserveBody,
  settleBody,
  type TestOrg,
  TOKEN,
  usage,
} from '../../support/ledger';
import { makeFiveBudgets } from '../budgets/making';
import { command, type Given, type reserve, type settle } from './few-items-given';

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

interface World extends TestOrg {
  keys: Record<'good' | 'ended', { key_id: string; secret_id: string }>;
  agents: string[];
  foreign: TestOrg;
  holds: { id: string; body: calls.Reserve }[];
  own_key: string | undefined;
}

/** A caller's organization: little money, a key with a budget, agents with and without caps. */
async function makeWorld(
  columns: Record<string, unknown>,
  with_budgets: boolean,
  own: Record<string, unknown> | undefined,
): Promise<World> {
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
  const own_key = own && (await makeOwnKey(db, org.org_id, own));
  const foreign = await makeOrg(db);
  return { ...org, keys, agents: [free, capped, warned], foreign, holds: [], own_key };
}

type Command = Given<typeof command>;

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
    choices: given.choices,
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
    own_keys: given.own_keys,
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
    provider_key_id: given.by_own ? world.own_key : undefined,
    provider_cost_usd: given.told,
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
    case 'factor':
      await many(db, 'update organizations set price_factor = :price_factor where id = :id', {
        ...{ id: world.org_id, price_factor: given.price_factor },
      });
      return;
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
    // A factor of 0 and own keys go the long way: they are the fewer ones.
    price_factor: fc.constantFrom(1, 1, 0.76, 0.76, 1.2, 1.2, 0),
  });
  const property = fc.asyncProperty(
    org,
    fc.boolean(),
    fc.constantFrom(
      ...[undefined, undefined, undefined, undefined, undefined],
      { price_factor: 0 },
      { price_factor: 0.5, own_keys: 'first' },
      { price_factor: 1.25 },
    ),
    fc.array(command, { minLength: 10, maxLength: 40, size: 'max' }),
    async (columns, with_budgets, own, steps) => {
      const world = await makeWorld(columns, with_budgets, own);
      await credit(db, world.org_id, world.org_wallet, 200n * TOKEN);
      for (const given of steps) await run(world, given);
      expect((await audit(db)).broken).toEqual([]);
    },
  );
  const limits = { interruptAfterTimeLimit: 400_000, markInterruptAsFailure: false };
  await fc.assert(property, { numRuns: 30, endOnFailure: true, ...limits });
  // Both functions for one item did a part of it.
  expect(shortWays.settle).toBeGreaterThan(10);
  expect(shortWays.reserve).toBeGreaterThan(10);
}, 900_000);
