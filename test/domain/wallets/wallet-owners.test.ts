import { type Db, many } from '../../../domain/sql';
import { openTestDatabase } from '../../support/database';
import { makeOrg } from '../../support/ledger';

let db: Db;
let close: () => Promise<void>;

beforeAll(async () => {
  ({ db, close } = await openTestDatabase());
});

afterAll(() => close());

test('a wallet is of an organization, a team or a user, and names that one and no other', async () => {
  const { org_id, team_id, user_id, team_wallet } = await makeOrg(db);
  const wrong = [
    { owner_type: 'organization', owner_team_id: team_id, owner_user_id: null },
    { owner_type: 'organization', owner_team_id: null, owner_user_id: user_id },
    { owner_type: 'team', owner_team_id: null, owner_user_id: null },
    { owner_type: 'team', owner_team_id: team_id, owner_user_id: user_id },
    { owner_type: 'user', owner_team_id: null, owner_user_id: null },
    { owner_type: 'user', owner_team_id: team_id, owner_user_id: user_id },
    { owner_type: 'agent', owner_team_id: team_id, owner_user_id: null },
  ];
  for (const owner of wrong) {
    const made = many(
      db,
      `insert into wallets (org_id, owner_type, owner_team_id, owner_user_id, currency)
       values (:org_id, :owner_type, :owner_team_id, :owner_user_id, 'USD')`,
      { org_id, ...owner },
    );
    await expect(made).rejects.toMatchObject({ code: '23514' });
    const changed = many(
      db,
      `update wallets set owner_type = :owner_type, owner_team_id = :owner_team_id, owner_user_id = :owner_user_id
       where id = :team_wallet`,
      { team_wallet, ...owner },
    );
    await expect(changed).rejects.toMatchObject({ code: '23514' });
  }
});
