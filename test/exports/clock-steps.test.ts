import { create } from '../../domain/exports/making';
import { type Db, many } from '../../domain/sql';
import { openTestDatabase } from '../support/database';
import { credit, makeOrg, type TestOrg } from '../support/ledger';

// A clock that was set back gives entries earlier times than those before them. Each entry is of
// one period all the same: where one statement ends the next one begins.

let db: Db;
let close: () => Promise<void>;

beforeAll(async () => {
  ({ db, close } = await openTestDatabase(5));
});

afterAll(() => close());

/** Writes the next entries of an organization's wallet, at these times. */
async function write({ org_id, org_wallet: wallet_id }: TestOrg, times: string[]): Promise<void> {
  for (const created_at of times) {
    await credit(db, org_id, wallet_id, 1_000n);
    await many(
      db,
      `update wallet_transactions t set created_at = :created_at
       from wallets w where w.id = :wallet_id and t.wallet_id = w.id and t.seq = w.seq`,
      { wallet_id, created_at },
    );
  }
}

/** From which entry to which of the organization's wallet a statement made now would go. */
async function boundsOf({ org_id, org_wallet }: TestOrg, from: string, to: string) {
  const period = { from: new Date(from), to: new Date(to) };
  const by = { destination_id: null, created_by: 'owner', created_with: null };
  const wanted = { org_id, kinds: ['statement'], format: 'jsonl', ...period, ...by } as const;
  const { id } = await db.transaction((trx) => create(trx, wanted));
  const row = await db('export_wallets').where({ export_id: id, wallet_id: org_wallet }).first();
  return [Number(row.from_seq), Number(row.to_seq)];
}

const in_january = (count: number) =>
  Array.from({ length: count }, (_, n) => `2025-01-${10 + n}T12:00:00Z`);
const in_february = (count: number) =>
  Array.from({ length: count }, (_, n) => `2025-02-${10 + n}T12:00:00Z`);
const january = ['2025-01-01T00:00:00Z', '2025-02-01T00:00:00Z'] as const;
const february = ['2025-02-01T00:00:00Z', '2025-03-01T00:00:00Z'] as const;

test.each([
  ['by a second', ['2025-02-01T00:00:01Z', '2025-01-31T23:59:59.5Z'], 9],
  ['twice', ['2025-02-01T00:00:01Z', '2025-01-31T23:59:59Z', '2025-01-31T23:59:58Z'], 9],
  ['by minutes', ['2025-02-01T00:04:00Z', '2025-01-31T23:55:00Z'], 9],
  ['ahead of the turn of the month', ['2025-01-31T23:59:59Z', '2025-01-31T23:59:58Z'], 11],
  ['behind it', ['2025-02-01T00:00:02Z', '2025-02-01T00:00:01Z'], 9],
])(
  'a statement begins where the one before ends, after a clock was set back %s',
  async (_, times, last) => {
    const org = await makeOrg(db);
    await write(org, [...in_january(9), ...times]);
    const written = 9 + times.length;
    const [, closing] = await boundsOf(org, ...january);
    expect(closing).toBe(last);
    await write(org, in_february(1));
    expect(await boundsOf(org, ...february)).toEqual([closing, written + 1]);
    await write(org, in_february(9).slice(1));
    expect(await boundsOf(org, ...february)).toEqual([closing, written + 9]);
    expect(await boundsOf(org, ...january)).toEqual([0, closing]);
  },
);

test('the days of a wallet meet, whatever their order', async () => {
  const org = await makeOrg(db);
  const times = [
    ...['2025-01-31T23:59:59Z', '2025-02-01T00:00:01Z', '2025-01-31T23:59:59.5Z'],
    ...['2025-02-01T12:00:00Z', '2025-02-02T00:00:01Z', '2025-02-01T23:59:59.5Z'],
  ];
  await write(org, times);
  const before = await many<{ seq: string }>(
    db,
    `select seq_before(:wallet_id, day, 0, 6)::text as seq
     from generate_series('2025-01-31T00:00:00Z'::timestamptz, '2025-02-03T00:00:00Z', interval '1 day') as day order by day`,
    { wallet_id: org.org_wallet },
  );
  expect(before.map(({ seq }) => seq)).toEqual(['0', '1', '4', '6']);
});
