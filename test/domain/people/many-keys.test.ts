import type { Knex } from 'knex';
import * as makers from '../../../domain/people/makers';
import * as tokenChanges from '../../../domain/people/token-changes';
import * as tokens from '../../../domain/people/tokens';
import { type Db, many } from '../../../domain/sql';
import * as storedAnswers from '../../../domain/stored-answers';
import { makeTenant, startApi, type Tenant, type TestApi } from '../../support/api';
import { makeKey } from '../../support/keys';

// A key is found by its name, and the keys that a person may hold by that person, among as many as
// an installation collects: whatever looks at all of them does so under the organization's lock.

/** So many of each organization, large ones, a few in a block. */
const KEYS = 1_000;
/** Far fewer than the blocks of so many keys, more than those of one and of making a plan. */
const BLOCKS_MAX = 250;
const FILLED = '(select array_agg(md5(n::text || q)) from generate_series(1, 40) as q)';

let api: TestApi;
let tenant: Tenant;

beforeAll(async () => {
  api = await startApi();
  tenant = await makeTenant(api.db);
  const other = await makeTenant(api.db);
  // PostgreSQL counts now and then: the worst moment is before one of them has its keys.
  await many(api.db, 'alter table tokens set (autovacuum_enabled = false)');
  for (const org_id of [other.org_id, null, tenant.org_id]) {
    await many(
      api.db,
      `insert into tokens (org_id, name, token_type, scopes, revoked_at, created_by)
       select :org_id, 'key ' || n, 'gateway', ${FILLED}, clock_timestamp(), 'somebody' from generate_series(1, :keys::int) as n`,
      { org_id, keys: KEYS },
    );
    if (org_id === other.org_id) await many(api.db, 'analyze tokens');
  }
  await many(
    api.db,
    `insert into idempotency_keys (org_id, principal, route, key, body_sha256)
     select case when n % 2 = 0 then :org_id end, 'somebody', 'post /', 'key ' || n, array_to_string(${FILLED}, '')
     from generate_series(1, :keys::int) as n`,
    { org_id: tenant.org_id, keys: 4 * KEYS },
  );
});

afterAll(() => api.close());

interface Statement {
  text: string;
  values: unknown[];
}

/** What a function asks the database, in a transaction that leaves nothing behind. */
async function statementsOf(run: (trx: Db) => Promise<unknown>): Promise<Statement[]> {
  const asked: Statement[] = [];
  const trx = await api.db.transaction();
  trx.on('query', ({ sql, bindings }: { sql: string; bindings: unknown[] }) =>
    asked.push({ text: sql, values: bindings }),
  );
  await run(trx).finally(() => trx.rollback());
  return asked.filter(({ text }) => /^\s*(select|insert|update|delete|with)\b/.test(text));
}

interface Explained {
  'QUERY PLAN': [{ Plan: { 'Shared Hit Blocks': number; 'Shared Read Blocks': number } }];
}

/** The most blocks that one of the statements reads, in the least of several times. */
async function blocksOf(run: (trx: Db) => Promise<unknown>): Promise<number> {
  const asked = await statementsOf(run);
  expect(asked.length).toBeGreaterThan(0);
  const client = api.db.client as Knex.Client;
  const session = await client.acquireConnection();
  const explained = async ({ text, values }: Statement): Promise<number> => {
    const counts: number[] = [];
    for (let n = 0; n < 4; n += 1) {
      await session.query('begin');
      const { rows } = await session
        .query({ text: `explain (analyze, buffers, format json) ${text}`, values })
        .finally(() => session.query('rollback'));
      const { Plan: plan } = (rows as Explained[])[0]?.['QUERY PLAN'][0] ?? {};
      counts.push((plan?.['Shared Hit Blocks'] ?? 0) + (plan?.['Shared Read Blocks'] ?? 0));
    }
    return Math.min(...counts);
  };
  const most: number[] = [];
  try {
    for (const one of asked) most.push(await explained(one));
  } finally {
    await client.releaseConnection(session);
  }
  return Math.max(...most);
}

test('the tables are many more blocks than are read', async () => {
  const sizes = await many<{ blocks: number }>(
    api.db,
    `select (pg_relation_size(name::regclass) / current_setting('block_size')::int)::int as blocks
     from unnest(array['tokens', 'idempotency_keys']) as name`,
  );
  for (const { blocks } of sizes) expect(blocks).toBeGreaterThan(2 * BLOCKS_MAX);
});

describe.each(['an organization', 'the platform'])('of %s', (whose) => {
  const org = () => (whose === 'the platform' ? null : tenant.org_id);
  let name: string;

  beforeAll(async () => {
    name = `own ${whose}`;
    await makeKey(api.db, org(), { name, token_type: 'gateway', user_id: null });
  });

  test('a living key is found by its name', async () => {
    expect(await tokens.find(api.db, org(), name)).toMatchObject({ name, status: 'active' });
    expect(await blocksOf((trx) => tokens.find(trx, org(), name))).toBeLessThan(BLOCKS_MAX);
  });

  test('the newest of the ended keys of one name is found', async () => {
    const old = `old ${whose}`;
    await many(
      api.db,
      `with k as (insert into tokens (org_id, name, token_type, revoked_at, created_by)
         select :org_id, :old, 'gateway', clock_timestamp(), 'somebody' from generate_series(1, 3) returning id)
       insert into token_secrets (token_id, hash, prefix) select id, 'hash of ' || id, 'svc_gk_' from k`,
      { org_id: org(), old },
    );
    const [newest] = await many<{ id: string }>(
      api.db,
      'select id from tokens where name = :old order by id desc limit 1',
      { old },
    );
    expect(await tokens.find(api.db, org(), old)).toMatchObject({ ...newest, status: 'revoked' });
    expect(await blocksOf((trx) => tokens.find(trx, org(), old))).toBeLessThan(BLOCKS_MAX);
  });

  test('a key is given another name, and revoked', async () => {
    const token = await tokens.find(api.db, org(), name);
    const rename = (trx: Db) => tokenChanges.change(trx, org(), token, { name: `${name} anew` });
    expect(await blocksOf(rename)).toBeLessThan(BLOCKS_MAX);
    expect(await blocksOf((trx) => tokens.revoke(trx, org(), token))).toBeLessThan(BLOCKS_MAX);
  });

  test('the keys that a person may hold are found by that person', async () => {
    const held = (trx: Db) =>
      many(trx, 'select keys_held_by_2(:org_id, :person)', { org_id: org(), person: 'user_1' });
    expect(await blocksOf(held)).toBeLessThan(BLOCKS_MAX);
  });

  test('an answer that was stored is found by its key', async () => {
    const at = { org_id: org(), principal: 'somebody', route: 'post /' };
    const key = `key ${org() === null ? 1 : 2}`;
    const [stored] = await many<{ body_sha256: string }>(
      api.db,
      'select body_sha256 from idempotency_keys where key = :key',
      { key },
    );
    const claim = { ...at, key, body_sha256: stored?.body_sha256 ?? '' };
    const answer = { status: 201, answer: '{}' };
    expect(await blocksOf((trx) => storedAnswers.find(trx, claim))).toBeLessThan(BLOCKS_MAX);
    expect(await blocksOf((trx) => storedAnswers.keep(trx, claim, answer))).toBeLessThan(
      BLOCKS_MAX,
    );
    expect(await blocksOf((trx) => storedAnswers.release(trx, claim))).toBeLessThan(BLOCKS_MAX);
  });
});

test('what falls with a person is found among the living keys of their organization', async () => {
  const { org_id, member_id: user_id } = tenant;
  const caller = { id: 'somebody', user_id: null, scopes: [] };
  const end = (trx: Db) =>
    makers.revokeKeysOf(trx, { org_id, user_id, with_own: true }, { caller, keep_keys: [] });
  expect(await blocksOf(end)).toBeLessThan(BLOCKS_MAX);
});
