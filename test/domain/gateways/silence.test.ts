import { noteSilent } from '../../../domain/gateways/fleet';
import { type Db, many } from '../../../domain/sql';
import { reportGateway } from '../../api/gateways/making';
import { openTestDatabase } from '../../support/database';

let db: Db;
let close: () => Promise<void>;

beforeAll(async () => {
  ({ db, close } = await openTestDatabase());
});
afterAll(() => close());

test('a gateway that falls silent without a word is told of once, and again after it came back', async () => {
  const id = await reportGateway(db);
  const silence = () =>
    many(
      db,
      `update gateways set seen_at = clock_timestamp() - interval '70 seconds' where id = :id`,
      { id },
    );
  const told = async () =>
    (
      await many(
        db,
        `select 1 from events e where e.type = 'gateway.silent' and e.payload ->> 'gateway_id' = :id`,
        { id },
      )
    ).length;
  await silence();
  await noteSilent(db);
  await noteSilent(db);
  expect(await told()).toBe(1);
  await reportGateway(db, { id });
  await silence();
  await noteSilent(db);
  expect(await told()).toBe(2);
});
