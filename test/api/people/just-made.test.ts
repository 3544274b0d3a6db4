import { type Db, many } from '../../../domain/sql';
import { openDatabase } from '../../../runtime/database';
import {
  type Answer,
  type CallApi,
  makeTenant,
  serve,
  startApi,
  type Tenant,
  type TestApi,
} from '../../support/api';
import { patient } from '../../support/database';
import { makeKey } from '../../support/keys';

// Lists whose rows were just made by the thousand: PostgreSQL takes their tables for nearly empty.

const ROWS = 4_000;
/**
 * As the API's pool of people has it, and longer where the machine is busy: a plan that looks at
 * everything for every row never ends.
 */
const STATEMENT_MS = 5_000;
/** Of what one read of all names takes. */
const STATEMENT_READS = 100;

let api: TestApi;
let people: Db;
let call: CallApi;
let closeServed: () => Promise<void>;
let tenant: Tenant;
let base: string;
let platform: string;

beforeAll(async () => {
  api = await startApi();
  tenant = await makeTenant(api.db);
  base = `/v1/organizations/${tenant.org_id}`;
  platform = await makeKey(api.db, null, { scopes: ['platform:admin'] });
  await fill(api.db);
  const statement_ms = Math.max(STATEMENT_MS, Math.ceil(STATEMENT_READS * (await readMs(api.db))));
  people = patient(openDatabase(api.database_url, 3, 'test', statement_ms));
  const served = await serve({ db: people });
  closeServed = served.close;
  call = (...given) => triedAgain(() => served.call(...given));
});

afterAll(async () => {
  await closeServed();
  await people.destroy();
  await api.close();
});

/** What it costs this machine to look at each name once, in milliseconds. */
async function readMs(db: Db): Promise<number> {
  const started_at = performance.now();
  await many(db, `select count(*) from users where name ilike '%3%'`);
  return performance.now() - started_at;
}

/** The answer of the last of three tries: a plan that never ends ends in none of them. */
async function triedAgain(ask: () => Promise<Answer>): Promise<Answer> {
  for (let left = 2; ; left -= 1) {
    const answer = await ask();
    if (answer.status !== 503 || left === 0) return answer;
  }
}

const tables = ['users', 'memberships', 'team_members', 'teams', 'agents', 'tokens', 'wallets'];

/** People `Person 1` and on, all in the team and with a wallet; teams, agents and keys of ours. */
async function fill(db: Db): Promise<void> {
  for (const table of [...tables, 'cost_tickets'])
    await many(db, `alter table ${table} set (autovacuum_enabled = off)`);
  const at = { org_id: tenant.org_id, team_id: tenant.team_id, rows: ROWS };
  await many(
    db,
    `with u as (insert into users (name, email) select 'Person ' || n, 'p' || n || '@acme.example' from generate_series(1, :rows::int) as n returning id),
       m as (insert into memberships (org_id, user_id, role) select :org_id, id, 'member' from u returning user_id),
       t as (insert into team_members (team_id, user_id) select :team_id, user_id from m returning user_id)
     select count(*) from t`,
    at,
  );
  await many(
    db,
    `insert into wallets (org_id, owner_type, owner_user_id, currency)
     select :org_id, 'user', user_id, 'USD' from team_members where team_id = :team_id on conflict do nothing`,
    at,
  );
  await many(
    db,
    `with u as (insert into users (name) values ('Former 1') returning id),
       m as (insert into memberships (org_id, user_id, role, archived_at) select :org_id, id, 'member', clock_timestamp() from u returning user_id)
     insert into wallets (org_id, owner_type, owner_user_id, currency) select :org_id, 'user', user_id, 'USD' from m`,
    at,
  );
  for (const table of ['teams', 'agents'])
    await many(
      db,
      `insert into ${table} (org_id, name) select :org_id, 'Thing ' || n from generate_series(1, :rows::int) as n`,
      at,
    );
  await many(
    db,
    `with t as (insert into tokens (org_id, token_type, name, created_by) select :org_id, 'gateway', 'Thing ' || n, 'test'
         from generate_series(1, :rows::int) as n returning id),
       s as (insert into token_secrets (token_id, hash, prefix) select id, md5(id), 'svc_gk_AAAAA' from t returning token_id)
     select count(*) from s`,
    at,
  );
  await many(
    db,
    `insert into cost_tickets (org_id, user_id, team_id, provider, model, request_body_hash, estimated_cost_nanos, currency, reserve,
       expires_at, status, created_at)
     select :org_id, t.user_id, :team_id, 'openai', 'gpt-4o', md5(t.user_id), 1000, 'USD',
       jsonb_build_object('request_body_hash', 'sha256:' || md5(t.user_id), 'family', 'chat_completions', 'request_id', t.user_id),
       clock_timestamp(), 'denied', clock_timestamp() from team_members t where t.team_id = :team_id and t.user_id <> :member_id`,
    { ...at, member_id: tenant.member_id },
  );
}

// Of the numbers from 1 to 4,000 there are 1,111 that begin with 3, and 11 that begin with 39 and
// have two or three digits.
const begins_with_3 = 1_111;

test.each([
  ['members?', 'person 3', begins_with_3],
  ['members?', 'p3', begins_with_3],
  ['members?', 'person 77', 11],
  ['members?', 'person', ROWS],
  ['members?', 'nobody', 0],
  ['members?team_id=$team&', 'person 3', begins_with_3],
  ['members?role=member&', 'person 3', begins_with_3],
  ['teams/$team/members?', 'person 3', begins_with_3],
  ['teams?', 'thing 3', begins_with_3],
  ['agents?', 'thing 3', begins_with_3],
  ['/v1/tokens?', 'thing 3', begins_with_3],
  ['/v1/wallets?sort=created_at&', 'person 3', begins_with_3],
  ['/v1/wallets?sort=created_at&', 'former', 1],
  ['/v1/admin/wallets?org_id=$org&', 'person 3', begins_with_3],
  ['/v1/admin/wallets?org_id=$org&', 'former', 1],
  ['/v1/cost-tickets?', 'person 3', begins_with_3],
])('%s finds %s among rows that no statistics know', async (list, q, found) => {
  const path = list.startsWith('/') ? list : `${base}/${list}`;
  const named = path.replace('$team', tenant.team_id).replace('$org', tenant.org_id);
  const query = `${named}q=${encodeURIComponent(q)}&per_page=200`;
  const key = list.startsWith('/v1/admin/') ? platform : tenant.owner_key;
  const page = await call('get', query, { key });
  expect([page.status, page.body.total]).toEqual([200, found]);
  const seen = new Set<string>();
  for (let cursor: string | null = 'first'; cursor !== null; ) {
    const part = await call('get', `${query}&cursor=${cursor}`, { key });
    expect(part.status).toBe(200);
    const rows = Object.values(part.body).find(Array.isArray) as object[];
    for (const row of rows) seen.add(JSON.stringify(row));
    cursor = part.body.next;
  }
  expect(seen.size).toBe(found);
});

test('statistics are still unknown', async () => {
  const known = await many(
    api.db,
    `select distinct tablename from pg_stats where tablename = any(:tables)`,
    { tables },
  );
  expect(known).toEqual([]);
});
