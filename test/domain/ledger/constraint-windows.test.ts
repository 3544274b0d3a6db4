import { type Db, one } from '../../../domain/sql';
import { openTestDatabase } from '../../support/database';

let db: Db;
let close: () => Promise<void>;

beforeAll(async () => {
  ({ db, close } = await openTestDatabase());
});

afterAll(() => close());

test.each([
  ['hour', '2027-03-28T01:59:59.999Z', '2027-03-28T01:00:00Z', '2027-03-28T02:00:00Z'],
  ['day', '2027-03-28T23:59:59.999Z', '2027-03-28T00:00:00Z', '2027-03-29T00:00:00Z'],
  ['week', '2027-01-03T23:59:59.999Z', '2026-12-28T00:00:00Z', '2027-01-04T00:00:00Z'],
  ['week', '2027-01-04T00:00:00Z', '2027-01-04T00:00:00Z', '2027-01-11T00:00:00Z'],
  ['month', '2028-02-29T12:00:00Z', '2028-02-01T00:00:00Z', '2028-03-01T00:00:00Z'],
])(
  'a %s window around %s starts and ends at its UTC instant in any time zone',
  async (interval, at, start, end) => {
    for (const zone of ['UTC', 'Pacific/Auckland', 'America/St_Johns']) {
      const row = await db.transaction(async (trx) => {
        await trx.raw(`set local timezone = '${zone}'`);
        return one<{ start: Date; end: Date }>(
          trx,
          `select window_start(:interval, :at) as start, window_end(:interval, :at) as "end"`,
          { interval, at: new Date(at) },
        );
      });
      expect([row.start, row.end]).toEqual([new Date(start), new Date(end)]);
    }
  },
);
