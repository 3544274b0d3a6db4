import { gatewayLight, providerLights, workerLights } from '../../console/web/operations/health';

const now_ms = Date.parse('2026-12-01T12:00:00Z');
const ago = (seconds: number) => new Date(now_ms - seconds * 1_000).toISOString();

test('gateways are as well as the worst of them, and all are counted', () => {
  const of = (...drifts: Parameters<typeof gatewayLight>[0][number]['drift'][]) => {
    const { word, kind, about } = gatewayLight(drifts.map((drift) => ({ drift })));
    return [word, kind, about];
  };
  expect(of('in_sync', 'in_sync')).toEqual(['in sync', 'good', '2 in sync']);
  expect(of('in_sync', 'applying')).toEqual(['applying', 'waiting', '1 in sync, 1 applying']);
  expect(of('drifted', 'in_sync', 'silent', 'in_sync')).toEqual([
    'silent',
    'bad',
    '2 in sync, 1 drifted, 1 silent',
  ]);
  expect(of('rejected')).toEqual(['rejected', 'bad', '1 rejected']);
  expect(of('unsupported')).toEqual(['unsupported', 'bad', '1 unsupported']);
  expect(of()).toEqual(['none', 'waiting', 'No gateway reports.']);
});

const poller = { identity: 'worker 1', version: '1.5.0', last_seen_at: ago(1) };
const queue = {
  task_queue: 'lifecycle',
  pollers: [poller],
  backlog: 0,
  oldest_task_age_seconds: 0,
  running_workflows: 0,
  failed_workflows_last_day: 0,
  last_failed_at: null,
};
const outbox = { waiting: 0, parked: 0, oldest_waiting_since: null, newest_parked_at: null };

const lights = (changes: object, of_outbox: object = {}) =>
  workerLights(
    {
      temporal: 'up',
      workers: [{ name: 'worker_lifecycle', queues: [{ ...queue, ...changes }] }],
      outbox: { ...outbox, ...of_outbox },
    },
    now_ms,
  ).map(({ name, word, kind }) => [name, word, kind]);

test('a queue is polled, behind, or has nobody who polls it', () => {
  const of = (changes: object) => lights(changes)[1];
  expect(of({})).toEqual(['Queue lifecycle', 'polled', 'good']);
  expect(of({ pollers: [] })).toEqual(['Queue lifecycle', 'unpolled', 'bad']);
  const late = { backlog: 3, oldest_task_age_seconds: 61 };
  expect(of(late)).toEqual(['Queue lifecycle', 'behind', 'waiting']);
  expect(of({ ...late, oldest_task_age_seconds: 60 })).toEqual(of({}));
  expect(of({ ...late, pollers: [] })).toEqual(of({ pollers: [] }));
});

test('the outbox moves, is behind, or has messages that were given up', () => {
  const of = (changes: object) => lights({}, changes)[2];
  expect(of({})).toEqual(['Outbox', 'moving', 'good']);
  expect(of({ waiting: 2, oldest_waiting_since: ago(60) })).toEqual(of({}));
  const late = { waiting: 2, oldest_waiting_since: ago(61) };
  expect(of(late)).toEqual(['Outbox', 'behind', 'waiting']);
  expect(of({ ...late, parked: 1 })).toEqual(['Outbox', 'parked', 'bad']);
});

test('while Temporal is away nothing is said of queues', () => {
  const away = workerLights({ temporal: 'away', workers: [], outbox }, now_ms);
  expect(away.map(({ name, word }) => [name, word])).toEqual([
    ['Temporal', 'away'],
    ['Outbox', 'moving'],
  ]);
});

test('a payment provider is active, ready, off, unused, or active and cannot be used', () => {
  const off = { enabled: false, configured: false };
  const of = (active: boolean, a: Partial<typeof off>) => {
    const active_provider = active ? 'payment_provider_a' : null;
    const given = {
      active_provider,
      payment_provider_a: { ...off, ...a },
      payment_provider_b: off,
    };
    const [one] = providerLights(given as Parameters<typeof providerLights>[0]);
    return [one?.word, one?.kind];
  };
  const set_up = { enabled: true, configured: true };
  expect(of(true, set_up)).toEqual(['active', 'good']);
  expect(of(false, set_up)).toEqual(['ready', 'neutral']);
  expect(of(false, { configured: true })).toEqual(['off', 'neutral']);
  expect(of(false, {})).toEqual(['unused', 'neutral']);
  expect(of(true, { enabled: true })).toEqual(['unready', 'bad']);
  expect(of(true, { configured: true })).toEqual(['off', 'bad']);
});
