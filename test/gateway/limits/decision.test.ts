import { z } from 'zod';
import type { Identity } from '../../../domain/people/identity';
import { limitSections } from '../../../gateway/config/limits';
import { openCounters } from '../../../gateway/limits/counters';
import type { HeldLimits, Tightest } from '../../../gateway/limits/decision';
import { type Limits, openLimits } from '../../../gateway/limits/engine';
import { createLimitRules, type LimitRules } from '../../../gateway/limits/rules';
import type { Standing } from '../../../gateway/limits/standing';
import { createLog } from '../../../runtime/log';
import { until } from '../../support/until';

// Decisions by themselves: no gateway, no HTTP, no store.

const identity: Identity = {
  proof: 'gateway_key',
  org_id: 'org',
  key_id: 'key',
  secret_id: 'secret',
  user_id: 'user',
  team_id: 'team',
  agent_id: null,
  allowed_models: null,
};

let limits: Limits;

beforeEach(() => {
  limits = openLimits(createLog('test', 'silent'));
});
afterEach(() => limits.close());

function rulesOf(settings: object): LimitRules {
  return createLimitRules(z.strictObject(limitSections).parse(settings));
}

interface Asked {
  who?: Partial<Identity>;
  prompt_tokens?: number;
  address?: string;
  /** Of those that wait for room. */
  has_place?: boolean;
  /** Its client has gone. */
  over?: AbortSignal;
}

/** A decision with the members of its tightest limit beside its own. */
type Decided = Partial<Tightest> & {
  refused?: Standing | undefined;
  opens_circuit?: boolean;
  held?: HeldLimits | undefined;
};

async function decide(
  rules: LimitRules,
  {
    who = {},
    prompt_tokens = 0,
    address = '203.0.113.9',
    has_place = true,
    over = new AbortController().signal,
  }: Asked = {},
): Promise<Decided> {
  const decision = await limits.decide(rules, {
    identity: { ...identity, ...who },
    address: limits.countAddress(rules, address),
    prompt_tokens,
    is_stream: false,
    gateway: { is_draining: false },
    hold: (wait) => (has_place ? wait(over) : undefined),
  });
  return decision.refused === undefined ? { ...decision, ...decision.tightest } : decision;
}

test('a call counts in each tier, or in none where a later one refuses', async () => {
  const rules = rulesOf({ rate_limits: { per_key: { rpm: 5 }, per_user: { rpm: 2 } } });
  expect((await decide(rules)).refused).toBeUndefined();
  expect((await decide(rules)).standing).toMatchObject({ scope: 'per_user', limit: 2, used: 2 });
  expect((await decide(rules)).refused).toMatchObject({ scope: 'per_user', used: 2 });
  // The refused call took nothing from the key, which has three left for another user.
  const other = { who: { user_id: 'other' } };
  expect((await decide(rules, other)).refused).toBeUndefined();
  expect((await decide(rules, other)).remaining_rpm).toBe(0);
  expect((await decide(rules, { who: { user_id: 'third' } })).remaining_rpm).toBe(0);
  expect((await decide(rules, { who: { user_id: 'fourth' } })).refused?.scope).toBe('per_key');
});

test('the count of an address is taken over, and goes back with a refusal of a later tier', async () => {
  const rules = rulesOf({
    rate_limits: { ip: { enabled: true, rpm: 3 }, per_key: { rpm: 1 } },
  });
  expect((await decide(rules)).refused).toBeUndefined();
  for (let n = 0; n < 5; n += 1) expect((await decide(rules)).refused?.scope).toBe('per_key');
  // One of three is used.
  const again = () => limits.countAddress(rules, '203.0.113.9').refused;
  expect([again(), again(), again()]).toEqual([
    undefined,
    undefined,
    expect.objectContaining({ scope: 'ip', used: 3 }),
  ]);
  expect(limits.countAddress(rules, '203.0.113.10').refused).toBeUndefined();
});

test('slots that a call gives back are free for others, and are taken again in turn', async () => {
  const rules = rulesOf({ rate_limits: { per_key: { max_parallel_requests: 1 } } });
  const first = await decide(rules);
  expect((await decide(rules)).refused).toMatchObject({ limit_type: 'parallel' });
  first.held?.release();
  const second = await decide(rules);
  expect(second.refused).toBeUndefined();
  const over = new AbortController();
  const again = first.held?.retake({ wait_ms: 10_000, over: over.signal });
  second.held?.end(0);
  expect(await again).toBeUndefined();
  // It holds the slot again, so that another call finds none within its time.
  const late = await second.held?.retake({ wait_ms: 10, over: over.signal });
  expect(late).toMatchObject({ limit_type: 'parallel', scope: 'per_key' });
});

test('the tokens that were used take the place of those that were estimated', async () => {
  const rules = rulesOf({
    rate_limits: { per_key: { tpm: 100 } },
    token_rate_limit: { pre_request_estimate: true },
  });
  const call = await decide(rules, { prompt_tokens: 90 });
  expect(call.remaining_tpm).toBe(10);
  expect((await decide(rules, { prompt_tokens: 20 })).refused).toMatchObject({ used: 90 });
  call.held?.end(30);
  expect((await decide(rules, { prompt_tokens: 20 })).remaining_tpm).toBe(50);
});

test('a global limit opens the circuit once, and only for the configuration that it belongs to', async () => {
  const settings = { rate_limits: { global: { rpm: 1 } } };
  const rules = rulesOf(settings);
  expect((await decide(rules)).refused).toBeUndefined();
  expect(await decide(rules)).toMatchObject({ opens_circuit: true, refused: { scope: 'global' } });
  expect(await decide(rules)).toMatchObject({ opens_circuit: false, refused: { scope: 'global' } });
  expect((await decide(rulesOf({ rate_limits: { global: { rpm: 5 } } }))).refused).toBeUndefined();
  expect(limits.stats()).toMatchObject({ requests_allowed_total: 2, requests_rejected_total: 2 });
});

test('nothing is decided for a caller whom no tier knows', async () => {
  const rules = rulesOf({ rate_limits: { per_user: { rpm: 1 } } });
  const decision = await decide(rules, { who: { user_id: null } });
  expect(decision).toEqual({ held: undefined, tightest: undefined });
});

test('a count that has drained meanwhile is not given back twice', async () => {
  let now = 1_000_000;
  const counters = openCounters(createLog('test', 'silent'), { clock: () => now });
  const rules = rulesOf({ rate_limits: { ip: { enabled: true, rpm: 1, burst: 1 } } });
  const check = () => counters.check(rules.ip?.rule as never, '203.0.113.9', 1, 1);
  const first = check();
  expect(counters.countHere(first)).toBe(true);
  now += 60_000;
  // The first has drained with its minute; another one counts in this one.
  const second = check();
  expect(counters.countHere(second)).toBe(true);
  expect(second.used).toBe(1);
  counters.takeBack(first);
  const third = check();
  expect(counters.countHere(third)).toBe(true);
  expect(third.used).toBe(2);
  expect(counters.countHere(check())).toBe(false);
  await counters.close();
});

test('what is carried into the next minute goes back with a refusal', async () => {
  let now = 60_000 * 100 + 59_000;
  const counters = openCounters(createLog('test', 'silent'), { clock: () => now });
  const rules = rulesOf({ rate_limits: { ip: { enabled: true, rpm: 10, burst: 10 } } });
  const check = () => counters.check(rules.ip?.rule as never, '203.0.113.9', 1, 1);
  for (let n = 0; n < 15; n += 1) expect(counters.countHere(check())).toBe(true);
  const refused = check();
  expect(counters.countHere(refused)).toBe(true);
  now += 2_000;
  counters.takeBack(refused);
  // 15 less the 10 of the minute are carried: 15 more pass under the limit of 20.
  let more = 0;
  while (counters.countHere(check())) more += 1;
  expect(more).toBe(15);
  await counters.close();
});

test('a clock that is set back by an hour keeps no caller out, and no circuit open', async () => {
  const rules = rulesOf({
    rate_limits: { per_user: { rpm: 10 }, global: { rpm: 20 } },
    user_rate_limit: { window_seconds: 1 },
    global_rate_limit: { window_seconds: 1 },
  });
  const others = Array.from({ length: 10 }, () => decide(rules, { who: { user_id: 'another' } }));
  await Promise.all([...others, ...Array.from({ length: 10 }, () => decide(rules))]);
  expect((await decide(rules, { who: { user_id: 'third' } })).opens_circuit).toBe(true);
  const right = Date.now;
  jest.spyOn(Date, 'now').mockImplementation(() => right() - 3_600_000);
  const refused = await decide(rules);
  expect((refused.refused?.reset_at ?? 0) - Date.now()).toBeLessThanOrEqual(1_000);
  await until(async () => (await decide(rules)).refused === undefined);
});

describe('where others wait for room in the global limit', () => {
  const withKeys = (rpm: number) =>
    rulesOf({
      rate_limits: { per_key: { rpm }, global: { rpm: 1 } },
      global_rate_limit: { reject_action: 'queue', queue_timeout_ms: 300_000 },
    });
  const rules = withKeys(2);
  let gone: AbortController;
  let waiting: Promise<Decided>;

  beforeEach(async () => {
    gone = new AbortController();
    limits.use(rules);
    await decide(rules, { who: { key_id: 'before' } });
    waiting = decide(rules, { who: { key_id: 'waits' }, over: gone.signal });
    await Promise.resolve();
  });
  afterEach(async () => {
    gone.abort();
    await waiting;
  });

  test('a call that another limit refuses is refused at once, and takes no place', async () => {
    const again = await decide(withKeys(1), { who: { key_id: 'before' } });
    expect(again.refused).toMatchObject({ scope: 'per_key', limit: 1 });
  });

  test('a call for which there is no place is refused by the limit that is full', async () => {
    const found = await decide(rules, { who: { key_id: 'other' }, has_place: false });
    expect(found.refused).toMatchObject({ scope: 'global', limit: 1 });
  });

  test('a call whose client goes is not refused, and leaves nothing counted', async () => {
    const { requests_rejected_total: before } = limits.stats();
    gone.abort();
    expect(await waiting).toEqual({ held: undefined, tightest: undefined });
    expect(limits.stats().requests_rejected_total).toBe(before);
  });
});

describe('tokens that were estimated and not used', () => {
  const rules = rulesOf({ rate_limits: { global: { tpm: 100 } } });
  const large = { prompt_tokens: 100 };

  test('close the circuit again that they have opened', async () => {
    const first = await decide(rules, large);
    expect((await decide(rules)).opens_circuit).toBe(true);
    expect(limits.openCircuit(rules)).toBeDefined();
    first.held?.end(0);
    expect(limits.openCircuit(rules)).toBeUndefined();
    expect((await decide(rules)).refused).toBeUndefined();
  });

  test('count for nothing while their call waits for money, and again once it is paid', async () => {
    const { held } = await decide(rules, large);
    held?.pause();
    const next = await decide(rules);
    expect(next.refused).toBeUndefined();
    const patience = { wait_ms: 0, over: new AbortController().signal };
    expect(await held?.retake(patience)).toBeUndefined();
    expect((await decide(rules)).refused).toMatchObject({ scope: 'global', used: 100 });
    held?.end(40);
    expect((await decide(rules)).refused).toBeUndefined();
  });
});
