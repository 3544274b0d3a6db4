import { Writable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { Valve } from '../../../gateway/exchange/valve';
import { until } from '../../support/until';

const IDLE_MS = 200;

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

test('a client that reads slowly but steadily is waited for, also behind the end of its answer', async () => {
  const { socket, res, valve, upstream } = opened();
  expect(upstream.is_paused).toBe(true);
  valve.end();
  const reading = setInterval(() => {
    socket._handle.writeQueueSize -= 1;
  }, IDLE_MS / 20);
  await sleep(IDLE_MS * 5);
  expect(res.destroyed).toBe(false);
  // From then on it reads nothing.
  clearInterval(reading);
  await until(() => res.destroyed);
});

test('a client that reads nothing is left after the idle time-out', async () => {
  const { res } = opened();
  expect(res.destroyed).toBe(false);
  await until(() => res.destroyed);
});

test('once it has room again all goes on, and nothing is looked at any more', async () => {
  const { res, taken, valve, upstream } = opened();
  const drained = new Promise((resolve) => res.once('drain', resolve));
  for (const done of taken.splice(0)) done();
  await drained;
  expect([upstream.is_paused, valve.isStalled()]).toEqual([false, false]);
  await sleep(IDLE_MS * 3);
  expect(res.destroyed).toBe(false);
});
