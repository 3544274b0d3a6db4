import { problemsOf, troublesOf } from '../../temporal/problems';
import type { TemporalStatus } from '../../temporal/status';

const now = new Date('2027-01-31T12:00:00Z');
const ago = (ms: number) => new Date(now.getTime() - ms);
const outbox = { waiting: 0, parked: 0, oldest_waiting_since: null, newest_parked_at: null, now };

/** The words for what Temporal and the outbox say, at the time of the host. */
function words(told: Partial<TemporalStatus>, look: Partial<typeof outbox> = {}, host = now) {
  return problemsOf(
    { workers: [], schedules: [], ...told },
    { ...outbox, ...look },
    host.getTime(),
  );
}

test('how long a message waits is measured by the clock that dates it, whatever the host says', () => {
  const host = new Date(now.getTime() + 61_000);
  const look = { waiting: 1, oldest_waiting_since: ago(5_000) };
  expect(words({}, look as object, host)).toEqual([]);
  const late = { waiting: 1, oldest_waiting_since: ago(61_000) };
  expect(words({}, late as object, ago(61_000))).toEqual([
    expect.stringContaining('has waited for 61 s in the outbox'),
  ]);
  const told = troublesOf(undefined, { ...outbox, ...late });
  expect(told).toMatchObject([{ type: 'worker.behind', task_queue: 'outbox' }]);
});
