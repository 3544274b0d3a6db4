import { type Db, many, one } from '../../../domain/sql';
import { type Answer, type CallApi, makeTenant, startApi, type Tenant } from '../../support/api';
import { locksAwaited } from '../../support/database';
import { until } from '../../support/until';

// Many people who are taken in by one call: ten land together.

let db: Db;
let call: CallApi;
let close: () => Promise<void>;
let tenant: Tenant;

const WAITED = 7_701;

beforeAll(async () => {
  ({ db, call, close } = await startApi());
  await many(
    db,
    `create function odd_names() returns trigger language plpgsql as $$ begin
       if new.name like 'Fails %' then raise exception 'a fault'; end if;
       if new.name like 'Waits %' then perform pg_advisory_xact_lock(${WAITED}); end if;
       return new;
     end $$`,
  );
  await many(
    db,
    'create trigger odd_names before insert on users for each row execute function odd_names()',
  );
});

beforeEach(async () => {
  tenant = await makeTenant(db);
});

afterAll(() => close());

/** Twenty-five people, one of whom has another name. */
function people(odd: { at: number; name: string }) {
  return Array.from({ length: 25 }, (_, n) => ({
    name: n === odd.at ? odd.name : `Person ${n}`,
    teams: [{ team_id: tenant.team_id }],
  }));
}

const takeIn = (members: object[]): Promise<Answer> =>
  call('post', `/v1/organizations/${tenant.org_id}/members/bulk`, {
    ...{ key: tenant.owner_key, body: { members } },
  });

async function count(): Promise<number> {
  const found = await one<{ count: number }>(
    db,
    'select count(*)::int as count from memberships where org_id = :org_id and user_id <> :member_id',
    { org_id: tenant.org_id, member_id: tenant.member_id },
  );
  return found.count;
}

const codes = ({ body }: Answer): (number | string)[] =>
  body.results.map((result: { status: number; error?: { code: string } }) =>
    result.error === undefined ? result.status : `${result.status} ${result.error.code}`,
  );

const times = <T>(length: number, what: T): T[] => Array.from({ length }, () => what);

test('a step that fails says what landed before it, and is not gone beyond', async () => {
  const answer = await takeIn(people({ at: 14, name: 'Fails 14' }));
  expect(answer.status).toBe(200);
  expect(codes(answer)).toEqual([...times(10, 201), ...times(15, '500 internal_error')]);
  expect(answer.body.results[9].member).toMatchObject({
    ...{ name: 'Person 9', teams: [{ team_id: tenant.team_id }] },
  });
  expect(await count()).toBe(10);
});

test('a call of which nothing landed is refused as a whole', async () => {
  const answer = await takeIn(people({ at: 3, name: 'Fails 3' }));
  expect([answer.status, answer.body.error.code]).toEqual([500, 'internal_error']);
  expect(await count()).toBe(0);
});

/** Takes people in, the fifteenth of whom waits until something else is done. */
async function during(work: () => Promise<unknown>): Promise<Answer> {
  let taking: Promise<Answer> | undefined;
  await db.transaction(async (trx) => {
    await many(trx, `select pg_advisory_xact_lock(${WAITED})`);
    taking = takeIn(people({ at: 14, name: 'Waits 14' }));
    await until(async () => (await locksAwaited(db)) > 0);
    await work();
  });
  return taking as Promise<Answer>;
}

test('ten are members while the next ten are taken in', async () => {
  let seen = 0;
  const answer = await during(async () => {
    seen = await count();
  });
  expect(seen).toBe(10);
  expect([answer.status, codes(answer)]).toEqual([200, times(25, 201)]);
  expect(await count()).toBe(25);
});

test('whoever loses the right meanwhile takes in nobody more', async () => {
  const answer = await during(() =>
    many(
      db,
      `update tokens set scopes = '{}' where org_id = :org_id and 'org:members' = any(scopes)`,
      { org_id: tenant.org_id },
    ),
  );
  expect([answer.status, codes(answer)]).toEqual([
    200,
    [...times(20, 201), ...times(5, '403 permission_denied')],
  ]);
  expect(await count()).toBe(20);
});

test('one person is taken in with their teams, whole or not at all', async () => {
  const path = `/v1/organizations/${tenant.org_id}/members`;
  const add = (body: object) => call('post', path, { key: tenant.owner_key, body });
  const { team_id } = tenant;
  const taken = await add({ name: 'Ann', teams: [{ team_id, role: 'admin' }] });
  expect([taken.status, taken.body.teams]).toMatchObject([201, [{ team_id, role: 'admin' }]]);
  expect((await add({ name: 'Ben' })).body).toMatchObject({ name: 'Ben', teams: [] });
  const before = await count();
  const refused = await add({ name: 'Cal', teams: [{ team_id }, { team_id: 'team_of_nobody' }] });
  expect([refused.status, await count()]).toEqual([404, before]);
});
