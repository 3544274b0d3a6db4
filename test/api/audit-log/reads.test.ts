import * as auditLog from '../../../domain/audit-log';
import { FIRST } from '../../../domain/lists';
import { type Db, many } from '../../../domain/sql';
import { openTestDatabase } from '../../support/database';

// The log is read by indexes, whatever is asked of it: no part of it costs a look at all of it.

let db: Db;
let close: () => Promise<void>;

const LARGE = 'org_large';
/** Of 40,000: the rows of a day are fewer, and those between them that a filter would pass over are more. */
const FEW = 1_500;
const all_rows = { members: true, money: true };

beforeAll(async () => {
  ({ db, close } = await openTestDatabase());
  // What triggers do is not asked here.
  for (const table of ['audit_events', 'audit_links'])
    await many(db, `alter table ${table} disable trigger user`);
  await many(
    db,
    `insert into audit_events (id, created_at, org_id, actor_type, actor, system, session_id, action, object_id)
     select 'aud_' || lpad(to_hex((extract(epoch from t.at) * 1000)::bigint), 12, '0') || n, t.at,
       case when n % 4 = 0 then null when n % 4 = 1 then 'org_small_' || n % 300 else :large end,
       case when n % 3 = 0 then 'system' else 'user' end, case when n % 3 <> 0 then 'user_' || n % 700 end,
       case when n % 3 = 0 then 'program_' || n % 5 end, 'key_' || n % 900,
       (array['key', 'team', 'wallet', 'budget', 'agent'])[n % 5 + 1] || (array['.created', '.changed'])[n % 2 + 1], 'thing_' || n % 3000
     from generate_series(1, 40000) as n cross join lateral (select timestamptz '2026-01-01' + n * interval '1 minute' as at) as t`,
    { large: LARGE },
  );
  await many(
    db,
    `insert into audit_links (chain, seq, event_id, prev_hash, hash)
     select chain, row_number() over (partition by chain order by id), id, repeat('a', 64), repeat('b', 64)
     from (select coalesce(org_id, 'platform') as chain, id from audit_events) as e`,
  );
  for (const table of ['audit_events', 'audit_links']) await many(db, `analyze ${table}`);
});

afterAll(() => close());

interface Asked {
  sql: string;
  bindings: unknown[];
}

interface Node {
  'Node Type': string;
  'Relation Name'?: string;
  'Actual Rows': number;
  'Rows Removed by Filter'?: number;
  Plans?: Node[];
}

/** The plans of all statements that an action asks, run once more. */
async function plansOf(action: () => Promise<unknown>): Promise<Node[]> {
  const asked: Asked[] = [];
  const note = (one: Asked) => asked.push(one);
  db.on('query', note);
  await action();
  db.removeListener('query', note);
  const client = await db.client.acquireConnection();
  try {
    const plans: Node[] = [];
    for (const { sql, bindings } of asked) {
      const { rows } = await client.query(`explain (analyze, format json) ${sql}`, bindings);
      plans.push(rows[0]['QUERY PLAN'][0].Plan);
    }
    return plans;
  } finally {
    await db.client.releaseConnection(client);
  }
}

const nodesOf = (node: Node): Node[] => [node, ...(node.Plans ?? []).flatMap(nodesOf)];

/** Rows of the log and its chain that a plan looked at. */
const looked = (plan: Node) =>
  nodesOf(plan)
    .filter((node) => /^audit_/.test(node['Relation Name'] ?? ''))
    .map((node) => [node['Node Type'], node['Actual Rows'] + (node['Rows Removed by Filter'] ?? 0)])
    .map(([type, rows]) => [type as string, rows as number] as const);

const from = new Date('2026-01-10');
const filters: Omit<auditLog.AuditLogFilter, 'org_id'>[] = [
  ...[{}, { actor: 'user_1' }, { actor: 'program_3' }, { actor_type: 'system' as const }],
  ...[{ action: 'key.created' }, { object_type: 'team' }, { object_id: 'thing_7' }],
  ...[{ session_id: 'key_7' }, { from, to: new Date('2026-01-11') }, { to: from }],
  // What nobody did.
  ...[{ actor: 'user_x' }, { action: 'key.x' }, { object_type: 'x' }, { object_id: 'x' }],
];

test.each(
  [LARGE, 'org_small_1', 'platform', null].flatMap((org_id) =>
    filters.map((filter) => [org_id, JSON.stringify(filter), filter] as const),
  ),
)('a part of the log of %s by %s looks at few rows', async (org_id, _, filter) => {
  const request = { page: 1, per_page: 20, sort: '-created_at', cursor: FIRST };
  const [plan, ...more] = await plansOf(() =>
    auditLog.list(db, { org_id, ...filter }, all_rows, request),
  );
  expect(more).toEqual([]);
  for (const [type, rows] of looked(plan as Node))
    expect([type, type !== 'Seq Scan' && rows < FEW]).toEqual([type, true]);
});

test("the count of a page looks at its organization's rows, and at no link", async () => {
  const request = { page: 1, per_page: 20, sort: '-created_at' };
  const plans = await plansOf(() =>
    auditLog.list(db, { org_id: 'org_small_1' }, all_rows, request),
  );
  expect(plans).toHaveLength(2);
  const count = nodesOf(plans[1] as Node).map((node) => node['Relation Name']);
  expect(count.filter((name) => name !== undefined)).toEqual(['audit_events']);
  for (const plan of plans)
    for (const [type, rows] of looked(plan))
      expect([type, type !== 'Seq Scan' && rows < FEW]).toEqual([type, true]);
});
