import * as editions from '../../../domain/spend/editions';
import { type Db, many } from '../../../domain/sql';
import { openTestDatabase } from '../../support/database';

let db: Db;
let close: () => Promise<void>;

beforeAll(async () => {
  ({ db, close } = await openTestDatabase());
});
afterAll(() => close());

test('of more organizations than a step takes, all come to their turn while none rests', async () => {
  const orgs = 130;
  await many(
    db,
    `with made as (insert into organizations (name) select 'Busy ' || n from generate_series(1, :orgs) as n returning id)
     insert into wallets (org_id, owner_type, currency) select id, 'organization', 'USD' from made on conflict do nothing`,
    { orgs },
  );
  await many(db, 'update wallets set seq = 5');
  await editions.openEditions(db);
  const folded = new Set<string>();
  // A step that others hold up takes none.
  for (let step = 0; step < 60 && folded.size < orgs; step += 1) {
    await editions.foldStep(db);
    const rows = await many<{ wallet_id: string }>(
      db,
      'update spend_cursors set folded_seq = 0 where folded_seq = 5 returning wallet_id',
    );
    for (const { wallet_id } of rows) folded.add(wallet_id);
  }
  expect(folded.size).toBe(orgs);
});
