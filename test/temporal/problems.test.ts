import { problemsOf, troublesOf } from '../../temporal/problems';
import type { ScheduleStatus, TemporalStatus } from '../../temporal/status';

const now = new Date('2027-01-31T12:00:00Z');
const ago = (ms: number) => new Date(now.getTime() - ms);
const MINUTE_MS = 60_000;
const outbox = { waiting: 0, parked: 0, oldest_waiting_since: null, newest_parked_at: null, now };

/** The words for what Temporal and the outbox say, at the time of the host. */
function words(told: Partial<TemporalStatus>, look: Partial<typeof outbox> = {}, host = now) {
  return problemsOf(
    { workers: [], schedules: [], ...told },
    { ...outbox, ...look },
    host.getTime(),
  );
}

const schedule = (more: Partial<ScheduleStatus>): ScheduleStatus => ({
  ...{ id: 'reconcile', status: 'active', last_result: 'completed', next_at: null },
  ...{ last_ended_at: now, ...more },
});

test.each([
  ['reconcile', 15, undefined],
  ['reconcile', 17, '17 minutes'],
  ['exportUpkeep', 60, '60 minutes'],
  ['reconcile', 119, '119 minutes'],
  ['reconcile', 120, '2 hours'],
  ['reconcile', 180, '3 hours'],
  ['audit', 50 * 60, undefined],
  ['audit', 51 * 60, '51 hours'],
] as const)('the schedule %s that last ended %i minutes ago: %s', (id, minutes, time) => {
  const last_ended_at = ago(minutes * MINUTE_MS);
  const said = time === undefined ? [] : [`The schedule ${id} last ended ${time} ago.`];
  expect(words({ schedules: [schedule({ id, last_ended_at })] })).toEqual(said);
});

test.each([
  [1, '1 workflow of export failed', '1 message to Temporal was given up.'],
  [2, '2 workflows of export failed', '2 messages to Temporal were given up.'],
])('%i that failed are counted', (count, failed, parked) => {
  const queue = {
    ...{ task_queue: 'export', backlog: 0, oldest_task_age_seconds: 0, running_workflows: 0 },
    pollers: [{ identity: 'worker_export', version: '1.5.0', last_seen_at: now }],
    ...{ failed_workflows_last_day: count, last_failed_at: now },
  };
  const workers = [{ name: 'worker_export' as const, queues: [queue] }];
  expect(words({ workers }, { parked: count })).toEqual([
    expect.stringContaining(failed),
    expect.stringContaining(parked),
  ]);
});

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
