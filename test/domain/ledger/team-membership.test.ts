import type { Batches } from '../../../api/ledger/batches';
import { reserveBatch, reserveItem } from '../../../domain/ledger/reservations';
import { type Db, many } from '../../../domain/sql';
import {
  balance,
  credit,
  makeOrg,
  openLedger,
  reserveBody,
  settleBody,
  TOKEN,
} from '../../support/ledger';

let db: Db;
let lanes: Batches;
let close: () => Promise<void>;

beforeAll(async () => {
  ({ db, lanes, close } = await openLedger());
});

afterAll(() => close());

async function makeFunded() {
  const org = await makeOrg(db);
  for (const wallet of [org.user_wallet, org.team_wallet, org.org_wallet])
    await credit(db, org.org_id, wallet, 1_000n * TOKEN);
  return org;
}

const leave = ({ team_id, user_id }: { team_id: string; user_id: string }) =>
  db('team_members').where({ team_id, user_id }).delete();

test('a person who is not in the team holds nothing, in no wallet; the team or the person alone holds', async () => {
  const org = await makeFunded();
  const { org_id, user_id, team_id } = org;
  const reserve = (more: object) => lanes.reserve(reserveBody(org_id, 10, more));
  expect(await reserve({ user_id, team_id })).toMatchObject({ code: null });
  await leave(org);
  expect(await reserve({ user_id, team_id })).toMatchObject({
    code: 'not_team_member',
    param: 'team_id',
    reservation_id: null,
    cost_ticket: null,
  });
  expect(await reserve({ team_id })).toMatchObject({ code: null, wallet_id: org.team_wallet });
  expect(await reserve({ user_id })).toMatchObject({ code: null, wallet_id: org.user_wallet });
  expect(await balance(db, org.org_wallet)).toEqual({
    balance_nanos: 1_000n * TOKEN,
    reserved_nanos: 0n,
  });
});

test('one stranger in a batch fails alone', async () => {
  const [org, other] = [await makeFunded(), await makeOrg(db)];
  await many(
    db,
    `insert into memberships (org_id, user_id, role) values (:org_id, :user_id, 'member')`,
    {
      org_id: org.org_id,
      user_id: other.user_id,
    },
  );
  const { org_id, team_id } = org;
  const rows = await Promise.all(
    [org.user_id, other.user_id, org.user_id].map((user_id) =>
      lanes.reserve(reserveBody(org_id, 1, { user_id, team_id })),
    ),
  );
  expect(rows.map(({ code }) => code)).toEqual([null, 'not_team_member', null]);
});

test('a call in flight settles after its person has left, and its repeat still finds its hold', async () => {
  const org = await makeFunded();
  const { org_id, user_id, team_id } = org;
  const body = reserveBody(org_id, 10, { user_id, team_id });
  const held = await lanes.reserve(body);
  await leave(org);
  expect(await lanes.reserve(body)).toMatchObject({
    code: null,
    reservation_id: held.reservation_id,
  });
  expect(await lanes.settle(settleBody(org_id, held.reservation_id, 7))).toMatchObject({
    code: null,
    status: 'settled',
    actual_cost_nanos: 7n * TOKEN,
  });
});

test('the look at the team is one probe of an index, whatever the number of teams', async () => {
  const org = await makeFunded();
  const { org_id, user_id, team_id } = org;
  await many(
    db,
    `with made as (insert into users (name) select 'U' || n from generate_series(1, 20000) as n returning id)
     insert into team_members (team_id, user_id) select :team_id, id from made`,
    { team_id },
  );
  const items = Array.from({ length: 20 }, (_, n) =>
    reserveBody(org_id, n + 1, { user_id, team_id }),
  );
  const bodies = { settlements: [], redeems: [], reserves: items.map(reserveItem) };
  const read = await db.transaction(async (trx) => {
    await reserveBatch(trx, org_id, { ...bodies, traces: undefined, stored: undefined });
    return many<{ scanned: number; probed: number }>(
      trx,
      `select pg_stat_get_xact_tuples_returned('team_members'::regclass)::int as scanned,
         pg_stat_get_xact_tuples_returned('team_members_pkey'::regclass)::int as probed`,
    );
  });
  // Equal items may share a probe.
  expect(read[0]?.scanned).toBe(0);
  expect(read[0]?.probed).toBeGreaterThanOrEqual(1);
  expect(read[0]?.probed).toBeLessThanOrEqual(20);
});
