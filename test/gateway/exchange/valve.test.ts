import { Writable } from 'node:stream';
import { Valve } from '../../../gateway/exchange/valve';

const IDLE_MS = 400;

/** A client that takes nothing by itself, before a valve. */
function opened() {
  const socket = { _handle: { writeQueueSize: 1_000 }, bytesWritten: 2_000, writableLength: 0 };
  const taken: (() => void)[] = [];
  const res = new Writable({
    highWaterMark: 1,
    write: (_chunk, _encoding, done) => void taken.push(done),
  });
  const upstream = { is_paused: false };
  const controller = {
    pause: () => {
      upstream.is_paused = true;
    },
    resume: () => {
      upstream.is_paused = false;
    },
  };
  const snapshot = { settings: { timeouts: { idle_ms: IDLE_MS } } };
  const call = { ctx: { res, req: { socket } }, client_is_gone: false, snapshot };
  const valve = new Valve(call as never, controller as never);
  valve.write(Buffer.from('A long answer'));
  return { socket, res, taken, upstream, valve };
}

beforeEach(() => {
  jest.useFakeTimers({ doNotFake: ['nextTick', 'setImmediate', 'queueMicrotask'] });
});

afterEach(() => jest.useRealTimers());

test('a client that reads slowly but steadily is waited for, also behind the end of its answer', () => {
  const { socket, res, valve, upstream } = opened();
  expect(upstream.is_paused).toBe(true);
  valve.end();
  for (let n = 0; n < 50; n += 1) {
    socket._handle.writeQueueSize -= 1;
    jest.advanceTimersByTime(IDLE_MS / 2);
  }
  expect(res.destroyed).toBe(false);
  // From then on it reads nothing.
  jest.advanceTimersByTime(IDLE_MS * 1.5);
  expect(res.destroyed).toBe(true);
});

test('a client that reads nothing is left after the idle time-out', () => {
  const { res } = opened();
  jest.advanceTimersByTime(IDLE_MS - 1);
  expect(res.destroyed).toBe(false);
  jest.advanceTimersByTime(1);
  expect(res.destroyed).toBe(true);
});

test('once it has room again all goes on, and nothing is looked at any more', async () => {
  const { res, taken, valve, upstream } = opened();
  const drained = new Promise((resolve) => res.once('drain', resolve));
  for (const done of taken.splice(0)) done();
  await drained;
  expect([upstream.is_paused, valve.isStalled()]).toEqual([false, false]);
  jest.advanceTimersByTime(IDLE_MS * 3);
  expect(res.destroyed).toBe(false);
});
