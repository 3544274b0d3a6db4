import { createHash } from 'node:crypto';
import { decimalText } from '../../domain/money';
import { many, one } from '../../domain/sql';
import { type Answer, makeTenant, type Tenant } from '../support/api';
import { reserveBody, settleBody } from '../support/ledger';
import {
  afterWritten,
  download,
  type ExportWorld,
  ended,
  lastHour,
  openExportWorld,
  rowsIn,
} from './world';

// What an export says of money is what the ledger says, to the nano, whatever happens meanwhile.

let world: ExportWorld;
let tenant: Tenant;

beforeAll(async () => {
  world = await openExportWorld();
  await world.startExporter();
  tenant = await makeTenant(world.db);
});

afterAll(() => world.close());

/** A priced call of so many tokens; its hold stays open if it is not settled. */
async function spend(tokens: number, is_settled = true): Promise<void> {
  const { call, machine } = world;
  const { org_id, member_id: user_id, team_id, agent_id } = tenant;
  const body = reserveBody(org_id, tokens, { user_id, team_id, agent_id });
  const held = await call('post', '/v1/gateway/wallets/reserve', { key: machine, body });
  expect(held.status).toBe(200);
  if (!is_settled) return;
  const settle = settleBody(org_id, held.body.reservation_id, tokens - 1);
  expect(
    (await call('post', '/v1/gateway/wallets/settle', { key: machine, body: settle })).status,
  ).toBe(200);
}

async function exported(body: object, key = tenant.owner_key) {
  const period = await lastHour();
  const made = await world.call('post', '/v1/exports', { key, body: { ...period, ...body } });
  expect([made.status, made.body]).toEqual([201, expect.anything()]);
  return ended(world, key, made.body.id);
}

/** The rows of all files of a kind. */
async function rowsOf(done: Answer['body'], kind: string) {
  const rows = [];
  for (const file of done.files)
    if (file.kind === kind && file.sha256 !== null) {
      const { bytes } = await download(world, tenant.owner_key, `${done.id}/files/${file.n}`);
      expect(createHash('sha256').update(bytes).digest('hex')).toBe(file.sha256);
      rows.push(...rowsIn(bytes));
    }
  return rows;
}

test('a statement made while calls run adds up to the nano, and to the ledger of the same bounds', async () => {
  const { db, call, platform } = world;
  const { org_id, owner_key: key } = tenant;
  const credit = { org_id, target_wallet_owner_type: 'organization', amount: 5.000000007 };
  await call('post', '/v1/admin/wallets/credit', { key: platform, body: credit });
  await call('post', '/v1/wallets/allocate', { key, body: { team_id: tenant.team_id, amount: 1 } });
  for (let n = 1; n <= 5; n += 1) await spend(1_000 + n);
  await spend(77, false);
  const load = Promise.all(Array.from({ length: 10 }, (_, n) => spend(500 + n)));
  const done = await exported({ kinds: ['statement', 'ledger', 'requests'] });
  await load;
  expect(done).toMatchObject({ status: 'completed', error_code: null });
  const statement = await rowsOf(done, 'statement');
  const ledger = await rowsOf(done, 'ledger');
  const requests = await rowsOf(done, 'requests');
  for (const row of statement) {
    const sum = (name: string) => BigInt(row[`${name}_nanos`] as string);
    const types = [
      'credit',
      'payment_credit',
      'payment_refund',
      'allocation_in',
      'allocation_out',
      'reservation',
      'settlement',
    ];
    const moved = types.reduce((total, type) => total + sum(type), 0n);
    expect(sum('opening') + moved).toBe(sum('closing'));
    expect(row.closing).toBe(decimalText(sum('closing')));
    const found = await one<{ balance: bigint; spent: bigint; entries: number }>(
      db,
      `select sum(amount_nanos)::bigint as balance, coalesce(sum(actual_cost_nanos), 0)::bigint as spent, count(*)::int as entries
       from wallet_transactions where wallet_id = :wallet_id and seq <= :to_seq`,
      { wallet_id: row.wallet_id, to_seq: row.to_seq },
    );
    const entries = ledger.filter((one) => one.wallet_id === row.wallet_id);
    expect([sum('closing'), sum('cost'), entries.length]).toEqual([
      found.balance,
      found.spent,
      found.entries,
    ]);
    const of_wallet = requests.filter((one) => one.wallet_id === row.wallet_id);
    const cost = of_wallet.reduce((total, one) => total + BigInt(one.cost_nanos as string), 0n);
    expect(cost).toBe(sum('cost'));
  }
  expect(statement.length).toBeGreaterThanOrEqual(2);
  expect(requests.length).toBeGreaterThanOrEqual(5);
  const [first] = requests;
  expect(first).toMatchObject({
    user_id: tenant.member_id,
    team_id: tenant.team_id,
    status: 'settled',
  });
  const names = new Map(
    await Promise.all(
      (['users', 'teams', 'organizations'] as const).map(async (table) => {
        const id = { users: tenant.member_id, teams: tenant.team_id, organizations: org_id };
        const [row] = await db(table).where({ id: id[table] }).select('id', 'name');
        return [row.id as string, row.name as string] as const;
      }),
    ),
  );
  for (const { wallet_owner_id, wallet_owner_name } of ledger)
    expect(wallet_owner_name).toBe(names.get((wallet_owner_id as string | null) ?? org_id));
  const by_hand = ledger.find(({ type }) => type === 'credit');
  const [actor] = await db('tokens')
    .where({ id: by_hand?.actor as string })
    .select('name');
  expect(by_hand?.actor_name).toBe(actor.name);
  const manifest = await download(world, key, `${done.id}/files/0`);
  const { kinds } = JSON.parse(manifest.bytes.toString());
  const sums = Object.fromEntries(
    kinds[1].sums.map((one: { type: string; amount_nanos: string }) => [
      one.type,
      one.amount_nanos,
    ]),
  );
  const total = (type: string) =>
    ledger
      .filter((one) => one.type === type)
      .reduce((all, one) => all + BigInt(one.amount_nanos as string), 0n);
  expect(kinds[1].kind).toBe('ledger');
  for (const [type, nanos] of Object.entries(sums)) expect(nanos).toBe(String(total(type)));
});

test('a request says what its price was multiplied with, as it was held', async () => {
  const at = `/v1/admin/organizations/${tenant.org_id}/wallet-settings`;
  const setFactor = (price_factor: number) =>
    world.call('put', at, { key: world.platform, body: { price_factor } });
  await setFactor(0.76);
  await spend(101);
  await setFactor(1);
  await spend(201);
  const requests = await rowsOf(await exported({ kinds: ['requests'] }), 'requests');
  const of = (tokens: string) =>
    requests.find(({ prompt_tokens }) => String(prompt_tokens) === tokens);
  expect(of('100')).toMatchObject({ price_factor: '0.76', cost_nanos: '76000' });
  expect(of('100')).toMatchObject({ input_per_1m_usd: '1', provider_key_id: null });
  expect(of('200')).toMatchObject({ price_factor: null, cost_nanos: '200000' });
});

test('what is written after an export was made is not in it, and is in the next one', async () => {
  const { db, call } = world;
  const from = new Date(Date.now() - 3_600_000);
  const to = new Date();
  const key = tenant.owner_key;
  const kinds = ['ledger', 'events', 'audit_log', 'tickets'];
  // Two wait behind the first, whose worker has other things to do.
  const made = await call('post', '/v1/exports', { key, body: { kinds, from, to } });
  await spend(42);
  const done = await ended(world, key, made.body.id);
  const seen = await rowsOf(done, 'ledger');
  const [before] = await many<{ count: number }>(
    db,
    'select count(*)::int as count from wallet_transactions where org_id = :org_id and created_at < :to',
    { org_id: tenant.org_id, to },
  );
  expect(seen).toHaveLength(before?.count ?? -1);
  const next = await exported({ kinds, from: to, to: await afterWritten() });
  expect((await rowsOf(next, 'ledger')).length).toBe(2);
  const events = await rowsOf(done, 'events');
  expect(events.every((one) => new Date(one.created_at as string) < to)).toBe(true);
  const audit_log = await rowsOf(done, 'audit_log');
  expect(audit_log.some((one) => one.action === 'key.created')).toBe(true);
  // Whoever has the file can follow the chain in it.
  const links = audit_log.toSorted((one, other) => Number(one.seq) - Number(other.seq));
  for (const [n, { seq, prev_hash, actor_type, object_type }] of links.entries()) {
    expect([seq, prev_hash]).toEqual([n + 1, links[n - 1]?.hash ?? '']);
    expect([actor_type, object_type]).toEqual([expect.any(String), expect.any(String)]);
  }
});

test('a row of the audit log whose link somebody took away is in the file, without its place', async () => {
  const { db, call } = world;
  const from = new Date();
  const { org_id, owner_key: key } = tenant;
  const path = `/v1/organizations/${org_id}/teams`;
  const team = await call('post', path, { key, body: { name: 'Cut out' } });
  // Another one follows it in the chain.
  await call('post', path, { key, body: { name: 'Left in' } });
  const { id } = await one<{ id: string }>(
    db,
    `select a.id from audit_events a where a.org_id = :org_id and a.action = 'team.created' and a.object_id = :id`,
    { org_id, id: team.body.id },
  );
  const link = await db.transaction(async (trx) => {
    await many(trx, `set local session_replication_role = 'replica'`);
    return one(trx, 'delete from audit_links where event_id = :id returning *', { id });
  });
  const done = await exported({ kinds: ['audit_log'], from, to: await afterWritten() });
  const row = (await rowsOf(done, 'audit_log')).find((found) => found.id === id);
  expect(row).toMatchObject({ action: 'team.created', chain: null, seq: null, hash: null });
  await db('audit_links').insert(link);
});

test('entries that a clock set back gave earlier times are in the ledger as in the statement', async () => {
  const { db, call, platform } = world;
  const { org_id, owner_key: key } = tenant;
  const path = `/v1/organizations/${org_id}/teams`;
  const team = await call('post', path, { key, body: { name: 'Set back' } });
  const body = {
    org_id,
    target_wallet_owner_type: 'team',
    target_wallet_owner_id: team.body.id,
    amount: 1,
  };
  for (let n = 0; n < 4; n += 1)
    await call('post', '/v1/admin/wallets/credit', { key: platform, body });
  const { id: wallet_id } = await one<{ id: string }>(
    db,
    'select id from wallets where owner_team_id = :id',
    team.body,
  );
  const noon = Date.now() - (Date.now() % 86_400_000) - 86_400_000 / 2;
  const minutes = [-10, 10, -8, 20];
  await db.transaction(async (trx) => {
    await many(trx, `set local session_replication_role = 'replica'`);
    // It is younger than its first entry, as the clock was set back after it was made.
    const created_at = new Date(noon - 5 * 60_000);
    await trx('wallets').where({ id: wallet_id }).update({ created_at });
    for (const [n, minute] of minutes.entries())
      await trx('wallet_transactions')
        .where({ wallet_id, seq: n + 1 })
        .update({ created_at: new Date(noon + minute * 60_000) });
  });
  for (const [from, to] of [
    [5, 30],
    [-5, 15],
    [15, 30],
    [-20, 30],
    [-20, -6],
  ] as const) {
    const at = (minute: number) => new Date(noon + minute * 60_000);
    const period = { from: at(from), to: at(to) };
    const done = await exported({ kinds: ['statement', 'ledger'], ...period });
    expect(done.status).toBe('completed');
    const [row] = (await rowsOf(done, 'statement')).filter((one) => one.wallet_id === wallet_id);
    const entries = (await rowsOf(done, 'ledger')).filter((one) => one.wallet_id === wallet_id);
    const moved = entries.reduce((sum, one) => sum + BigInt(one.amount_nanos as string), 0n);
    expect([from, BigInt(row?.opening_nanos as string) + moved]).toEqual([
      from,
      BigInt(row?.closing_nanos as string),
    ]);
  }
});
