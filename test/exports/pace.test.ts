import { setTimeout as sleep } from 'node:timers/promises';
import { type Db, many } from '../../domain/sql';
import { copyText } from '../../exports/copy-text';
import { paced } from '../../exports/pace';
import { openTestDatabase } from '../support/database';
import { until } from '../support/until';

const { signal } = new AbortController();

/** A page that takes 5 ms of this process. */
async function page(): Promise<Buffer> {
  const { user, system } = process.cpuUsage();
  for (let now = process.cpuUsage(); now.user + now.system < user + system + 5_000; )
    now = process.cpuUsage();
  await sleep(1);
  return Buffer.from('x\n');
}

/** The pauses before pages of a second, in which the server writes so many bytes. */
async function pauses(bytes_per_s: number | undefined): Promise<number[]> {
  const began = performance.now();
  const asked: number[] = [];
  const read = paced(page, signal, {
    async writtenBytes() {
      if (bytes_per_s === undefined) throw new Error('not allowed');
      return ((performance.now() - began) * bytes_per_s) / 1_000;
    },
    async pause(ms) {
      asked.push(ms);
    },
  });
  for (let n = 0; n < 20 || performance.now() - began < 1_000; n += 1) await read({} as Db, '', {});
  return asked;
}

test('an export pauses for three times what a page took while others write, and never while nobody does', async () => {
  expect(await pauses(1_000)).toEqual([]);
  const asked = await pauses(1_000_000);
  expect(asked.length).toBeGreaterThan(0);
  expect(Math.min(...asked)).toBeGreaterThanOrEqual(15);
  expect(Math.max(...asked)).toBeLessThanOrEqual(500);
});

test('it pauses for nobody while it cannot know', async () => {
  expect(await pauses(undefined)).toEqual([]);
});

test('it pauses while a database is written to', async () => {
  const { db, close } = await openTestDatabase();
  await many(db, 'create table written (text text)');
  const rows = `insert into written select repeat('x', 100) from generate_series(1, 1000)`;
  let has_paused = false;
  const read = paced(copyText, signal, {
    async writtenBytes(from) {
      await many(from, rows);
      const [row] = await many<{ bytes: string }>(
        from,
        `select pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::text as bytes`,
      );
      return Number(row?.bytes);
    },
    async pause() {
      has_paused = true;
    },
  });
  await until(async () => {
    await read(db, 'select 1', {});
    return has_paused;
  });
  await close();
});
