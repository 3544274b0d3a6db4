import type { Rule } from '../../../gateway/limits/buckets';
import { type Counters, openCounters } from '../../../gateway/limits/counters';
import { admitInTurn } from '../../../gateway/limits/queue';
import { fixedWindow, leases } from '../../../gateway/limits/windows';
import { createLog } from '../../../runtime/log';
import { until } from '../../support/until';

// No test crosses the edge of a window of a hundred days.
const EDGELESS_MS = 8_640_000_000;

let limits: Counters;

afterEach(() => limits.close());

function open(sweep_ms?: number): void {
  limits = openCounters(createLog('test', 'silent'), { sweep_ms });
}

function rule(name: string, limit: number, more: Partial<Rule> = {}): Rule {
  return {
    ...{ scope: 'global', limit_type: 'rpm', limit, window: fixedWindow(EDGELESS_MS), name },
    ...{ queue_ms: 0, retry_after: undefined },
    ...more,
  };
}

const slots = (name: string) =>
  rule(name, 1, { limit_type: 'parallel', window: leases(), queue_ms: 10_000 });

test('tokens of a call that outlives a sweep count for those that come after it', async () => {
  open(5);
  const tokens = rule('tokens:', 50, { limit_type: 'tpm' });
  const stream = limits.check(tokens, 'one', 1, 0);
  expect(limits.admit([stream])).toBeUndefined();
  const found = stream.bucket;
  await until(() => limits.check(tokens, 'one', 1, 0).bucket !== found);
  limits.correct(stream, 60);
  const next = limits.check(tokens, 'one', 1, 0);
  expect(limits.admit([next])).toBe(next);
});

test('a slot that is taken after a wait that outlives a sweep counts', async () => {
  open(5);
  const waited = limits.check(slots('slots:'), 'one', 1, 1);
  const found = waited.bucket;
  await until(() => limits.check(slots('slots:'), 'one', 1, 1).bucket !== found);
  expect(limits.admit([waited])).toBeUndefined();
  const next = limits.check(slots('slots:'), 'one', 1, 1);
  expect(limits.admit([next])).toBe(next);
});

test('who waits in one line and is then refused by another counter goes on once that has room', async () => {
  open();
  const [here, there] = [slots('here:'), slots('there:')];
  const [first, second] = [limits.check(here, '', 1, 1), limits.check(there, '', 1, 1)];
  expect([limits.admit([first]), limits.admit([second])]).toEqual([undefined, undefined]);
  const both = [limits.check(here, '', 1, 1), limits.check(there, '', 1, 1)] as const;
  expect(limits.admit(both)).toBe(both[0]);
  const over = new AbortController().signal;
  const waits = admitInTurn(limits, both, both[0], { wait_ms: 600_000, over });
  limits.release(first);
  // By now it has been refused by the other one.
  await until(() => both[1].used === 1);
  limits.release(second);
  expect(await waits).toBeUndefined();
});
