import { gunzipSync } from 'node:zlib';
import { many, one } from '../../domain/sql';
import { type Answer, makeTenant, refusal, type Tenant } from '../support/api';
import { chat, credit, makePrice, reserveBody, settleBody } from '../support/ledger';
import { download, type ExportWorld, ended, openExportWorld } from './world';

// What an accountant does: the month's CSV of spend, and the closing statement of the same month.

let world: ExportWorld;

beforeAll(async () => {
  world = await openExportWorld();
  await world.startExporter();
  await makePrice(world.db, { model: 'odd', input_per_1m: 0.123457, output_per_1m: 0 });
});

afterAll(() => world.close());

/** A call that was held and settled at a time; the clock, moved for its entries. */
async function callAt(tenant: Tenant, at: string, tokens: number, model: string): Promise<void> {
  const { db, call, machine: key } = world;
  const { org_id, member_id: user_id, team_id } = tenant;
  const body = reserveBody(org_id, tokens, { model, user_id, team_id });
  const { status, body: hold } = await call('post', '/v1/gateway/wallets/reserve', { key, body });
  expect(status).toBe(200);
  const settle = settleBody(org_id, hold.reservation_id, tokens - 1);
  await call('post', '/v1/gateway/wallets/settle', { key, body: settle });
  for (const [table, column] of [
    ['wallet_transactions', 'created_at'],
    ['reservations', 'closed_at'],
  ])
    await many(
      db,
      `update ${table} set ${column} = :at where ${table === 'reservations' ? 'id' : 'reservation_id'} = :id`,
      { at, id: hold.reservation_id },
    );
}

/** A tenant whose wallets are older than all that happens. */
async function makeOld(time_zone: string): Promise<Tenant> {
  const { db, call, platform } = world;
  const tenant = await makeTenant(db);
  const { org_id, owner_key: key } = tenant;
  await call('put', `/v1/admin/organizations/${org_id}/wallet-settings`, {
    ...{ key: platform, body: { time_zone } },
  });
  await credit(db, org_id, tenant.wallet_id, 1_000_000_007n);
  const gift = { team_id: tenant.team_id, amount: 0.000005 };
  expect((await call('post', '/v1/wallets/allocate', { key, body: gift })).status).toBe(200);
  for (const table of ['wallets', 'wallet_transactions'])
    await many(db, `update ${table} set created_at = '2020-06-01' where org_id = :org_id`, {
      org_id,
    });
  return tenant;
}

/** The lines of a CSV by their names. */
function linesOf(text: string): Record<string, string>[] {
  const [names = [], ...lines] = text.trim().split('\r\n').map(cellsOf);
  return lines.map((cells) => Object.fromEntries(cells.map((cell, n) => [names[n] ?? '', cell])));
}

/** A cell in quotes may have commas. */
function cellsOf(line: string): string[] {
  return [...line.matchAll(/(?:^|,)("(?:[^"]|"")*"|[^,]*)/g)].map(([, cell = '']) => cell);
}

function nanosOf(decimal = ''): bigint {
  const [units = '', fraction = ''] = decimal.split('.');
  return BigInt(units + fraction.padEnd(9, '0'));
}

const sum = (lines: Record<string, string>[], column: string) =>
  lines.reduce((total, line) => total + nanosOf(line[column]), 0n);

async function csvOf(tenant: Tenant, query: string) {
  const answer = await world.call('get', `/v1/spend?${query}`, {
    ...{ key: tenant.owner_key, headers: { accept: 'text/csv' } },
  });
  expect([answer.status, answer.headers['x-svc-truncated']]).toEqual([200, 'false']);
  return linesOf(answer.text);
}

async function fileOf(tenant: Tenant, done: Answer['body'], kind: string) {
  const lines = [];
  for (const file of done.files)
    if (file.kind === kind && file.sha256 !== null) {
      const { bytes } = await download(world, tenant.owner_key, `${done.id}/files/${file.n}`);
      lines.push(...linesOf(gunzipSync(bytes).toString()));
    }
  return lines;
}

// Months in which the clocks change, and the moments at their edges and in the change.
const months = [
  {
    zone: 'Europe/Berlin',
    ...{ from: '2025-10-01', to: '2025-11-01' },
    outside: ['2025-09-30T21:59:59.999Z', '2025-10-31T23:00:00Z'],
    inside: [
      ...['2025-09-30T22:00:00Z', '2025-10-26T00:30:00Z', '2025-10-26T01:30:00Z'],
      '2025-10-31T22:59:59.999Z',
    ],
  },
  {
    zone: 'Pacific/Auckland',
    ...{ from: '2025-09-01', to: '2025-10-01' },
    outside: ['2025-08-31T11:59:59.999Z', '2025-09-30T11:00:00Z'],
    inside: [
      ...['2025-08-31T12:00:00Z', '2025-09-27T13:59:00Z', '2025-09-27T14:01:00Z'],
      '2025-09-30T10:59:59.999Z',
    ],
  },
  // The month's last hour is called by the name of the next month's first.
  {
    zone: 'America/Havana',
    ...{ from: '2020-10-01', to: '2020-11-01' },
    outside: ['2020-10-01T03:59:59.999Z', '2020-11-01T05:00:00Z'],
    inside: [
      ...['2020-10-01T04:00:00Z', '2020-11-01T03:59:00Z', '2020-11-01T04:30:00Z'],
      '2020-11-01T04:59:59.999Z',
    ],
  },
  {
    zone: 'Atlantic/Azores',
    ...{ from: '2025-10-01', to: '2025-11-01' },
    outside: ['2025-09-30T23:59:59.999Z', '2025-11-01T01:00:00Z'],
    inside: [
      ...['2025-10-01T00:00:00Z', '2025-10-26T00:30:00Z', '2025-10-26T01:30:00Z'],
      '2025-11-01T00:59:59.999Z',
    ],
  },
];

test.each(months)(
  "the month's CSV in $zone adds up to the closing statement of that month, to the nano",
  async ({ zone: time_zone, from, to, outside, inside }) => {
    const tenant = await makeOld(time_zone);
    let tokens = 1_000;
    for (const at of [...outside, ...inside].sort())
      for (const model of [chat.model, 'odd']) await callAt(tenant, at, ++tokens, model);

    const month = `from=${from}&to=${to}`;
    const lines = await csvOf(tenant, `${month}&interval=day&group_by=model`);
    const [whole, ...more] = await csvOf(tenant, `${month}&interval=month`);
    expect(more).toEqual([]);
    const cost = sum(lines, 'cost');
    expect(cost).toBeGreaterThan(0n);
    expect([nanosOf(whole?.cost), whole?.requests]).toEqual([cost, '8']);
    // Some cost no whole number of what a token costs.
    expect(lines.some((line) => nanosOf(line.cost) % 1_000n !== 0n)).toBe(true);

    const made = await world.call('post', '/v1/exports', {
      key: tenant.owner_key,
      body: { kinds: ['statement', 'requests'], format: 'csv', from, to, time_zone },
    });
    expect([made.status, made.text]).toEqual([201, made.text]);
    const done = await ended(world, tenant.owner_key, made.body.id);
    expect(done.status).toBe('completed');
    const statement = await fileOf(tenant, done, 'statement');
    expect(sum(statement, 'cost')).toBe(cost);
    expect(statement.reduce((total, line) => total + BigInt(line.cost_nanos ?? 0), 0n)).toBe(cost);
    expect(sum(await fileOf(tenant, done, 'requests'), 'cost')).toBe(cost);
    const moved = ['credit', 'payment_credit', 'payment_refund', 'allocation_in', 'allocation_out'];
    const flows = [...moved, 'reservation', 'settlement'];
    for (const line of statement) {
      const through = flows.reduce((total, name) => total + nanosOf(line[name]), 0n);
      expect(nanosOf(line.opening) + through).toBe(nanosOf(line.closing));
    }
    // What was spent is what the wallets have less: nothing else happened in this month.
    expect(sum(statement, 'opening') - sum(statement, 'closing')).toBe(cost);
  },
);

test('after a clock was set back over the end of a month, statement and CSV differ by the calls of that step, and two months by nothing', async () => {
  const tenant = await makeOld('UTC');
  const step = ['2025-02-01T00:00:01Z', '2025-01-31T23:59:59.5Z'];
  for (const [n, at] of ['2025-01-20T12:00:00Z', ...step, '2025-02-10T12:00:00Z'].entries())
    await callAt(tenant, at, 1_001 + n, 'odd');
  const costs = async (from: string, to: string) => {
    const lines = await csvOf(tenant, `from=${from}&to=${to}&interval=month`);
    const { body } = await world.call('post', '/v1/exports', {
      ...{ key: tenant.owner_key, body: { kinds: ['statement'], format: 'csv', from, to } },
    });
    const statement = await fileOf(
      tenant,
      await ended(world, tenant.owner_key, body.id),
      'statement',
    );
    return { csv: sum(lines, 'cost'), statement: sum(statement, 'cost') };
  };
  const january = await costs('2025-01-01', '2025-02-01');
  const february = await costs('2025-02-01', '2025-03-01');
  const both = await costs('2025-01-01', '2025-03-01');
  const { cost } = await one<{ cost: bigint }>(
    world.db,
    `select actual_cost_nanos as cost from wallet_transactions where org_id = :org_id and type = 'settlement'
     and created_at = '2025-01-31T23:59:59.5Z'`,
    { org_id: tenant.org_id },
  );
  // Written behind the first entry of February, so the statement of that month has it.
  expect(january.csv - january.statement).toBe(cost);
  expect(february.statement - february.csv).toBe(cost);
  expect(both.csv).toBe(both.statement);
  expect(january.statement + february.statement).toBe(both.statement);
});

test.each(['Berlin', 'CEST', '+02:00', ''])(
  'time_zone "%s" is refused with its field',
  async (zone) => {
    const tenant = await makeTenant(world.db);
    const body = { kinds: ['ledger'], from: '2025-10-01', to: '2025-11-01', time_zone: zone };
    const answer = await world.call('post', '/v1/exports', { key: tenant.owner_key, body });
    expect(refusal(answer)).toMatchObject({ status: 422, param: 'time_zone' });
  },
);

test('13 months to the day are taken in any zone, and not a day more', async () => {
  const tenant = await makeTenant(world.db);
  const ask = (to: string) =>
    world.call('post', '/v1/exports', {
      key: tenant.owner_key,
      body: { kinds: ['statement'], from: '2024-03-01', to, time_zone: 'Europe/Berlin' },
    });
  expect((await ask('2025-04-01')).status).toBe(201);
  expect(refusal(await ask('2025-04-02'))).toMatchObject({ status: 422, param: 'to' });
});
