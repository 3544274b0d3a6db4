import * as destinations from '../../../domain/notices/destinations';
import * as messages from '../../../domain/notices/messages';
import { type Db, many, one } from '../../../domain/sql';
import { secrets } from '../../support/api';
import { openTestDatabase } from '../../support/database';
import { makeOrg } from '../../support/ledger';

let db: Db;
let close: () => Promise<void>;
let org_id: string;
let destination_id: string;

beforeAll(async () => {
  ({ db, close } = await openTestDatabase());
  ({ org_id } = await makeOrg(db));
});
beforeEach(async () => {
  ({ id: destination_id } = await one<{ id: string }>(
    db,
    `insert into notice_destinations (org_id, name, channel, url, host, kinds, created_by)
     values (:org_id, 'Hook', 'webhook', 'https://example.com', 'example.com', '{payment}', 'test') returning id`,
    { org_id },
  ));
});
afterAll(() => close());

const tell = (count: number) =>
  many(
    db,
    `insert into notices (destination_id, org_id, kind, payload)
     select :destination_id, :org_id, 'payment', '{}' from generate_series(1, :count)`,
    { destination_id, org_id, count },
  );
const away = { outcome: 'failed', status: 503, error: 'It answered 503.' } as const;

/** Long enough for a busy machine to do more before it is over. */
const LONG_MS = 120_000;

/** Takes what is due and lets all of it fail; how many that were. */
async function fail(first_pause_ms = 5_000): Promise<number> {
  const taken = await messages.take(db, destination_id, 20);
  for (const { id } of taken)
    await messages.sent(db, id, { ...away, sent_to: null }, first_pause_ms);
  return taken.length;
}

/** How long the message waits from its failure on, in milliseconds. */
async function pauseMs(): Promise<number> {
  const { pause_ms } = await one<{ pause_ms: number }>(
    db,
    `select (extract(epoch from m.next_at - q.failed_at) * 1000)::float8 as pause_ms
     from notice_messages m join notice_queues q using (destination_id) where destination_id = :destination_id`,
    { destination_id },
  );
  return pause_ms;
}

async function failures(): Promise<number> {
  const sql = 'select failures from notice_queues where destination_id = :destination_id';
  return (await one<{ failures: number }>(db, sql, { destination_id })).failures;
}

test('messages that fail together are one failure', async () => {
  await tell(4);
  expect(await fail(LONG_MS)).toBe(4);
  expect(await failures()).toBe(1);
  const wait = await messages.dueIn(db, destination_id);
  expect(wait).toBeGreaterThan(0);
  expect(wait).toBeLessThanOrEqual(LONG_MS);
});

test('a new message waits with those of a destination that fails, and none of them raises the pause', async () => {
  await tell(1);
  expect(await fail(LONG_MS)).toBe(1);
  for (let n = 0; n < 5; n += 1) {
    await tell(1);
    expect(await fail(LONG_MS)).toBe(0);
  }
  expect(await failures()).toBe(1);
  expect(await messages.dueIn(db, destination_id)).toBeLessThanOrEqual(LONG_MS);
});

test('the next failure is one more, and what is mended goes at once', async () => {
  await tell(2);
  await fail();
  for (const expected of [2, 3]) {
    await many(
      db,
      `update notice_messages set next_at = clock_timestamp() where destination_id = :destination_id`,
      { destination_id },
    );
    expect(await fail()).toBe(1);
    expect(await failures()).toBe(expected);
  }
  const wait = await messages.dueIn(db, destination_id);
  expect(wait).toBeGreaterThan(10_000);
  await destinations.change(
    db,
    secrets,
    { id: destination_id, owner: org_id },
    { to: { url: 'https://example.org', host: 'example.org', credentials: { secret: 'whsec_x' } } },
  );
  expect(await failures()).toBe(0);
  expect(await messages.dueIn(db, destination_id)).toBeLessThanOrEqual(0);
});

test('a message is tried after 5 s, 10 s, 20 s … 15 minutes, for a day, and is failed then', async () => {
  await tell(1);
  const waits: number[] = [];
  const day_ms = 24 * 3_600_000;
  let passed_ms = 0;
  while ((await fail()) === 1) {
    const wait_ms = await pauseMs();
    expect(await messages.dueIn(db, destination_id)).toBeLessThanOrEqual(wait_ms + 1);
    waits.push(Math.round(wait_ms / 1_000));
    passed_ms += wait_ms;
    // So long passes: all moments of its rows lie further back.
    await many(
      db,
      `update notice_messages set next_at = next_at - :wait_ms * interval '1 ms', give_up_at = give_up_at - :wait_ms * interval '1 ms',
         attempted_at = attempted_at - :wait_ms * interval '1 ms' where destination_id = :destination_id`,
      { destination_id, wait_ms },
    );
  }
  const full = 15 * 60;
  expect(waits.slice(0, 9)).toEqual([5, 10, 20, 40, 80, 160, 320, 640, full]);
  expect(new Set(waits.slice(8))).toEqual(new Set([full]));
  expect(passed_ms).toBeGreaterThanOrEqual(day_ms);
  expect(passed_ms).toBeLessThan(day_ms + full * 1_000 + 5_000);
  const row = await db('notice_messages').where({ destination_id }).first();
  expect(row).toMatchObject({ status: 'failed', attempts: waits.length, last_status: 503 });
  expect(await messages.dueIn(db, destination_id)).toBe(null);
});

test('what a mail to other recipients came to is no failure of those who are there now', async () => {
  await many(
    db,
    `insert into notice_recipients (destination_id, address, confirmed_at) values (:destination_id, 'old@example.com', now())`,
    { destination_id },
  );
  await tell(1);
  const [taken] = await messages.take(db, destination_id, 20);
  const { target } = await destinations.open(db, secrets, destination_id);
  await many(
    db,
    `update notice_recipients set address = 'new@example.com' where destination_id = :destination_id`,
    { destination_id },
  );
  await messages.sent(db, taken?.id ?? '', { ...away, sent_to: target }, LONG_MS);
  expect(await failures()).toBe(0);
  // Its lease alone is waited for.
  expect(await messages.dueIn(db, destination_id)).toBeLessThanOrEqual(20_000);
  const { target: now } = await destinations.open(db, secrets, destination_id);
  expect(now).not.toBe(target);
  await messages.sent(db, taken?.id ?? '', { ...away, sent_to: now }, LONG_MS);
  expect(await failures()).toBe(1);
});
