import { type Db, many, one } from '../../domain/sql';
import { type CallApi, makeTenant, startApi, type Tenant } from '../support/api';

// Lists of a hundred thousand keys and members: a part of them is read in less time than a person
// notices, wherever it lies and whatever is searched.

const ROWS = 100_000;
const BAR_MS = 50;
const TRIES = 60;

let db: Db;
let call: CallApi;
let close: () => Promise<void>;
let tenant: Tenant;
let base: string;

beforeAll(async () => {
  ({ db, call, close } = await startApi());
  tenant = await makeTenant(db);
  base = `/v1/organizations/${tenant.org_id}`;
  await fill(tenant.org_id, tenant.team_id);
  // Another organization's rows stand beside them in every index.
  const other = await makeTenant(db);
  await many(
    db,
    `insert into tokens (org_id, token_type, name, created_by) select :org_id, 'gateway', 'Key ' || n, 'test'
     from generate_series(1, 20000) as n`,
    { org_id: other.org_id },
  );
  await many(db, 'analyze');
});

afterAll(() => close());

/** Keys, one in ten of which lives, and members, one in ten of whom is in the team. */
async function fill(org_id: string, team_id: string): Promise<void> {
  const at = { org_id, team_id, rows: ROWS };
  await many(db, 'alter table memberships disable trigger memberships_record');
  await many(db, 'alter table tokens disable trigger tokens_record');
  await many(
    db,
    `with people as (
       insert into users (id, name, email)
       select 'user_' || lpad(n::text, 12, '0'), 'Person ' || n || ' of ' || chr(97 + n % 26), 'p' || n || '@acme.example'
       from generate_series(1, :rows) as n returning id)
     insert into memberships (org_id, user_id, role) select :org_id, id, 'member' from people`,
    at,
  );
  await many(
    db,
    `insert into team_members (team_id, user_id) select :team_id, user_id from memberships
     where org_id = :org_id and user_id like 'user_0%0' on conflict do nothing`,
    at,
  );
  await many(
    db,
    `insert into tokens (org_id, token_type, name, user_id, allowed_models, expires_at, revoked_at, created_by)
     select :org_id, 'gateway', 'Key ' || n || ' ' || md5(n::text), 'user_' || lpad((1 + n % 5000)::text, 12, '0'),
       case when n % 3 = 0 then null else array['gpt-4o*', 'model-' || n % 1000] end,
       case when n % 2 = 0 then clock_timestamp() + n * interval '1 minute' end,
       case when n % 10 > 0 then clock_timestamp() end, 'test'
     from generate_series(1, :rows) as n`,
    at,
  );
  await many(
    db,
    `insert into token_secrets (token_id, hash, prefix) select id, md5(id), 'svc_gk_AAAAA' from tokens
     where org_id = :org_id and created_by = 'test' on conflict do nothing`,
    at,
  );
  await many(
    db,
    `insert into cost_tickets (org_id, user_id, team_id, provider, model, request_body_hash, estimated_cost_nanos, currency, reserve,
       expires_at, status, created_at)
     select :org_id, 'user_' || lpad((1 + n % 5000)::text, 12, '0'), :team_id, 'openai', 'gpt-4o', md5(n::text), 1000, 'USD',
       jsonb_build_object('request_body_hash', 'sha256:' || md5(n::text), 'family', 'chat_completions', 'request_id', n::text),
       clock_timestamp(), case n % 10 when 0 then 'denied' else 'expired' end, clock_timestamp() - n * interval '1 second'
     from generate_series(1, :rows) as n`,
    at,
  );
  await many(db, 'alter table memberships enable trigger memberships_record');
  await many(db, 'alter table tokens enable trigger tokens_record');
}

/** The fastest of up to 60, until one is fast: what it costs, not what else the machine does. */
async function fastest(path: string): Promise<{ ms: number; body: { [name: string]: unknown } }> {
  let ms = Number.POSITIVE_INFINITY;
  let body = {};
  for (let n = 0; n < TRIES && ms > BAR_MS; n += 1) {
    const began = performance.now();
    const answer = await call('get', path, { key: tenant.owner_key });
    ms = Math.min(ms, performance.now() - began);
    expect([path, answer.status]).toEqual([path, 200]);
    ({ body } = answer);
  }
  return { ms, body };
}

const rowsIn = (body: object) => Object.values(body).find(Array.isArray) as unknown[];

test.each([
  ['/v1/tokens?', 50],
  ['/v1/tokens?sort=created_at&per_page=200', 200],
  ['/v1/tokens?sort=name', 50],
  ['/v1/tokens?sort=-name', 50],
  ['/v1/tokens?sort=expires_at&status=active', 50],
  ['/v1/tokens?status=active', 50],
  ['/v1/tokens?status=revoked', 50],
  ['/v1/tokens?status=expired', 0],
  ['/v1/tokens?type=access', 2],
  ['/v1/tokens?user_id=user_000000000007', 20],
  ['/v1/tokens?expires_before=2000-01-01', 0],
  ['/v1/tokens?status=active&expires_before=2100-01-01&sort=-expires_at', 50],
  ['/v1/tokens?q=key', 50],
  ['/v1/tokens?q=key 99999', 1],
  ['/v1/tokens?q=nobody', 0],
  ['/v1/tokens?model=gpt-4o-mini', 50],
  ['/v1/tokens?model=model-7&status=active', 50],
  ['/v1/tokens?q=key 9999&model=model-7&sort=name', 1],
  ['/v1/cost-tickets?', 50],
  ['/v1/cost-tickets?sort=created_at&per_page=200', 200],
  ['/v1/cost-tickets?status=denied', 50],
  ['/v1/cost-tickets?user_id=user_000000000007', 20],
  ['/v1/cost-tickets?status=open', 0],
  ['/v1/cost-tickets?model=other', 0],
  ['/v1/cost-tickets?cause=budget', 0],
  ['/v1/cost-tickets?q=person%204321', 20],
  ['/v1/cost-tickets?q=person', 50],
  ['members?', 50],
  ['members?sort=name', 50],
  ['members?sort=-created_at&per_page=200', 200],
  ['members?q=person', 50],
  ['members?q=p77777', 1],
  ['members?q=77777 acme', 1],
  ['members?q=nobody', 0],
  ['members?role=owner', 0],
  ['members?role=member&q=person&sort=name', 50],
  ['members?team_id=$team&sort=name', 50],
  ['teams/$team/members?', 50],
  ['teams/$team/members?q=p777', 4],
])('the first part of %s is read within 50 ms', async (given, rows) => {
  const query = given.replace('$team', tenant.team_id);
  const path = `${query.startsWith('/') ? '' : `${base}/`}${query}&cursor=first`;
  const { ms, body } = await fastest(path);
  expect(rowsIn(body).length).toBeGreaterThanOrEqual(rows);
  expect({ path, ms: Math.max(ms, BAR_MS) }).toEqual({ path, ms: BAR_MS });
});

test.each(['/v1/tokens?sort=name', '/v1/tokens?sort=-expires_at', 'members?sort=name'])(
  'a part deep in %s is read within 50 ms, and no part counts the list',
  async (query) => {
    const path = `${query.startsWith('/') ? '' : `${base}/`}${query}&per_page=200`;
    let cursor = 'first';
    // A quarter of the list is read, part after part.
    for (let n = 0; n < ROWS / 200 / 4; n += 1) {
      const answer = await call('get', `${path}&cursor=${cursor}`, { key: tenant.owner_key });
      expect(answer.body).not.toHaveProperty('total');
      cursor = answer.body.next;
    }
    const { ms } = await fastest(`${path}&cursor=${cursor}`);
    expect({ query, ms: Math.max(ms, BAR_MS) }).toEqual({ query, ms: BAR_MS });
  },
);

test('pages with their count go on working', async () => {
  const { body } = await call('get', '/v1/tokens?page=3&per_page=2', { key: tenant.owner_key });
  const { count } = await one<{ count: number }>(
    db,
    'select count(*)::int as count from tokens where org_id = :org_id',
    { org_id: tenant.org_id },
  );
  expect(body).toMatchObject({ total: count, has_more: true });
});
