import { setTimeout as sleep } from 'node:timers/promises';
import { startThread } from '../../../gateway/counting/thread';

test('a thread that ends is told of once, and refuses what it was asked', async () => {
  let told = 0;
  const thread = startThread<object, number>('test/gateway/counting/failing-thread.ts', () => {
    told += 1;
  });
  await expect(thread.ask({})).rejects.toThrow('The thread has ended.');
  // Its exit comes right after its error, and no condition tells that it has been left out.
  await sleep(100);
  expect(told).toBe(1);
});
