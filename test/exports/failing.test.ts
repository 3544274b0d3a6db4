import { asyncLocalStorage, type Context } from '@temporalio/activity';
import { withLife } from '../../activities/life';
import { AppError } from '../../domain/errors';

// When an error ends a step for good: the tries of a step, one after the other, each with what the
// heartbeats of the one before have told.

const MINUTE_MS = 60_000;
const away = Object.assign(new Error('connect ECONNREFUSED 127.0.0.1:5432'), {
  code: 'ECONNREFUSED',
});
const shutting_down = Object.assign(new Error('terminating connection'), { code: '57P01' });
const store_fails = new AppError('export_target_failed', 'The store fails.');

let now_ms = 0;
let told: unknown;

beforeEach(() => {
  [now_ms, told] = [Date.UTC(2027, 0, 31), undefined];
  jest.spyOn(Date, 'now').mockImplementation(() => now_ms);
});

afterEach(() => jest.restoreAllMocks());

/** One try that ends so, after so many milliseconds; what Temporal is answered. */
async function tried(error: unknown, ms = 10_000, signal = new AbortController().signal) {
  const context = {
    info: { attempt: 50, heartbeatDetails: told, scheduledTimestampMs: Date.UTC(2027, 0, 1) },
    cancellationSignal: signal,
    heartbeat: (details: unknown) => {
      told = details;
    },
  } as unknown as Context;
  return asyncLocalStorage.run(context, () =>
    withLife(async () => {
      now_ms += ms;
      throw error;
    }).catch((failure) => failure),
  );
}

test('an outage of the database ends no step, however often and long it is met', async () => {
  for (let n = 0; n < 100; n += 1)
    for (const error of [away, shutting_down]) {
      const failure = await tried(error, MINUTE_MS);
      expect(failure.nonRetryable ?? false).toBe(false);
      expect(failure).toMatchObject({
        code: 'unavailable',
        message: expect.stringMatching(/away/),
      });
    }
});

test('a step that was taken over often, and for long, has ten minutes from its first failure', async () => {
  const endings = [];
  for (let n = 0; n < 8; n += 1) endings.push(await tried(store_fails, MINUTE_MS));
  // Seven minutes since the first.
  for (const failure of endings) expect(failure).toBe(store_fails);
  for (let n = 0; n < 3; n += 1) expect(await tried(store_fails, MINUTE_MS)).toBe(store_fails);
  expect(await tried(store_fails, MINUTE_MS)).toMatchObject({
    nonRetryable: true,
    type: 'export_target_failed',
  });
});

test('a few failures end no step, however long each try takes', async () => {
  for (let n = 0; n < 7; n += 1) expect(await tried(store_fails, 60 * MINUTE_MS)).toBe(store_fails);
  expect(await tried(store_fails, 60 * MINUTE_MS)).toMatchObject({ nonRetryable: true });
});

test('tries of workers that stop are no failures, and forget none', async () => {
  const stopping = new AbortController();
  stopping.abort(new Error('WORKER_SHUTDOWN'));
  for (let n = 0; n < 20; n += 1)
    expect(await tried(store_fails, MINUTE_MS, stopping.signal)).toMatchObject({
      type: 'WorkerStops',
    });
  expect(told).toBe(undefined);
  await tried(store_fails);
  await tried(store_fails, MINUTE_MS, stopping.signal);
  await tried(away);
  expect(told).toMatchObject({ count: 1 });
});
