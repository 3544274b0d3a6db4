import { openEditions } from '../../../domain/spend/editions';
import { periodOf } from '../../../domain/spend/periods';
import { top } from '../../../domain/spend/spend';
import { type Db, many } from '../../../domain/sql';
import { openTestDatabase } from '../../support/database';
import { makeOrg } from '../../support/ledger';

let db: Db;
let close: () => Promise<void>;

beforeAll(async () => {
  ({ db, close } = await openTestDatabase());
});
afterAll(() => close());

test('months without a beginning are twelve, up to whatever day', async () => {
  const days = await many<{ day: string; first: string }>(
    db,
    `select d::date::text as day, (date_trunc('month', d - interval '1 day') - interval '11 months')::date::text as first
     from generate_series('2023-01-01'::date, '2025-03-02'::date, '3 days') as d`,
  );
  for (const { day, first } of days) {
    const { from_day, to_day } = await periodOf(db, 'Pacific/Auckland', {
      ...{ interval: 'month', to: day },
    });
    expect([day, from_day, to_day]).toEqual([day, first, day]);
  }
});

test('sessions are ranked over 31 days at most, of which one may have 25 hours', async () => {
  const { org_id } = await makeOrg(db, { time_zone: 'Europe/Berlin' });
  await openEditions(db);
  const viewer = { org_id, user_id: null, sees_all: true };
  const ranked = (to: string) =>
    top(db, viewer, {}, { by: 'session', limit: 5, from: '2026-10-01', to });
  expect((await ranked('2026-11-01')).groups).toEqual([]);
  await expect(ranked('2026-11-02')).rejects.toMatchObject({
    ...{ code: 'invalid_field', details: { param: 'to' } },
  });
});
