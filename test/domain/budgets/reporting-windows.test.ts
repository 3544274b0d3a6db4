import { type Db, one } from '../../../domain/sql';
import { openTestDatabase } from '../../support/database';

let db: Db;
let close: () => Promise<void>;

beforeAll(async () => {
  ({ db, close } = await openTestDatabase());
});

afterAll(() => close());

async function windowAt(window: string, zone: string, at: string): Promise<[string, string]> {
  const row = await one<{ starts_at: Date; ends_at: Date }>(
    db,
    'select * from reporting_window(:window, :zone, :at)',
    { window, zone, at },
  );
  return [row.starts_at.toISOString(), row.ends_at.toISOString()];
}

test.each([
  [
    'day',
    'UTC',
    '2026-03-01T23:59:59.999Z',
    '2026-03-01T00:00:00.000Z',
    '2026-03-02T00:00:00.000Z',
  ],
  [
    'week',
    'UTC',
    '2026-11-30T00:00:00.000Z',
    '2026-11-30T00:00:00.000Z',
    '2026-12-07T00:00:00.000Z',
  ],
  [
    'month',
    'UTC',
    '2028-02-29T12:00:00.000Z',
    '2028-02-01T00:00:00.000Z',
    '2028-03-01T00:00:00.000Z',
  ],
  [
    'day',
    'Asia/Kolkata',
    '2026-06-01T18:29:59.000Z',
    '2026-05-31T18:30:00.000Z',
    '2026-06-01T18:30:00.000Z',
  ],
  [
    'hour',
    'Asia/Kolkata',
    '2026-06-01T18:29:59.000Z',
    '2026-06-01T17:30:00.000Z',
    '2026-06-01T18:30:00.000Z',
  ],
  // Auckland's clocks go back on 5 April 2026 at 14:00 UTC of the 4th, and forward on 27 September.
  [
    'day',
    'Pacific/Auckland',
    '2026-04-05T00:00:00.000Z',
    '2026-04-04T11:00:00.000Z',
    '2026-04-05T12:00:00.000Z',
  ],
  [
    'day',
    'Pacific/Auckland',
    '2026-09-27T00:00:00.000Z',
    '2026-09-26T12:00:00.000Z',
    '2026-09-27T11:00:00.000Z',
  ],
  [
    'hour',
    'Pacific/Auckland',
    '2026-04-04T13:30:00.000Z',
    '2026-04-04T13:00:00.000Z',
    '2026-04-04T14:00:00.000Z',
  ],
  [
    'hour',
    'Pacific/Auckland',
    '2026-04-04T14:30:00.000Z',
    '2026-04-04T14:00:00.000Z',
    '2026-04-04T15:00:00.000Z',
  ],
  [
    'month',
    'Pacific/Auckland',
    '2026-09-28T00:00:00.000Z',
    '2026-08-31T12:00:00.000Z',
    '2026-09-30T11:00:00.000Z',
  ],
  // Havana shows the hour from midnight twice on 1 November 2026.
  [
    'day',
    'America/Havana',
    '2026-11-01T04:30:00.000Z',
    '2026-10-31T04:00:00.000Z',
    '2026-11-01T05:00:00.000Z',
  ],
])('the %s of %s at %s', async (window, zone, at, starts_at, ends_at) => {
  expect(await windowAt(window, zone, at)).toEqual([starts_at, ends_at]);
});

test('the windows of a year follow each other without a gap, in every zone and kind', async () => {
  for (const zone of [
    'UTC',
    'Pacific/Auckland',
    'Asia/Kolkata',
    'America/Havana',
    'Africa/Casablanca',
  ])
    for (const window of ['hour', 'day', 'week', 'month']) {
      let [, end] = await windowAt(window, zone, '2026-03-20T12:34:56Z');
      for (let n = 0; n < 26; n += 1) {
        const next = await windowAt(window, zone, end);
        expect([zone, window, next[0]]).toEqual([zone, window, end]);
        end = next[1];
      }
    }
});
