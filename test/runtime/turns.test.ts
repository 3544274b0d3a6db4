import { setTimeout as sleep } from 'node:timers/promises';
import { createTurns } from '../../runtime/turns';

const open = (most: number, wait_ms = 60_000) => createTurns({ most, wait_ms, message: 'Later.' });

test('so many of one name have a turn at one time, the others in the order in which they came, and no other name waits', async () => {
  const { take } = open(2);
  const begun: string[] = [];
  const ends: (() => void)[] = [];
  const begin = (name: string, label: string) =>
    take(name).then((end) => {
      begun.push(label);
      ends.push(end);
    });
  const all = [1, 2, 3, 4].map((n) => begin('a', `a${n}`));
  all.push(begin('b', 'b1'));
  await sleep(0);
  expect(begun).toEqual(['a1', 'a2', 'b1']);
  const [a1, a2] = ends;
  a1?.();
  // An end counts once.
  a1?.();
  await sleep(0);
  expect(begun).toEqual(['a1', 'a2', 'b1', 'a3']);
  a2?.();
  await Promise.all(all);
  expect(begun).toEqual(['a1', 'a2', 'b1', 'a3', 'a4']);
});

test('whoever waits for too long is 503 with Retry-After, and takes no turn later', async () => {
  const { take } = open(1, 20);
  const end = await take('a');
  await expect(take('a')).rejects.toMatchObject({
    status: 503,
    code: 'unavailable',
    details: { retry_after: 2 },
  });
  end();
  (await take('a'))();
  (await take('a'))();
});
