import { audit } from '../../../domain/ledger/audit';
import { type Db, many } from '../../../domain/sql';
import { makeTenant, type Tenant } from '../../support/api';
import { locksAwaited, openTestDatabase } from '../../support/database';
import { until } from '../../support/until';

// Transactions that write into several chains.

let db: Db;
let close: () => Promise<void>;
let tenant: Tenant;
let other: Tenant;

beforeAll(async () => {
  ({ db, close } = await openTestDatabase());
  tenant = await makeTenant(db);
  other = await makeTenant(db);
});

afterAll(() => close());

test('transactions that write into the same chains in other orders wait for each other, none fails', async () => {
  const orders = [
    [tenant.org_id, other.org_id, 'a new one'],
    ['a new one', other.org_id, tenant.org_id],
  ];
  for (let n = 0; n < 10; n += 1) {
    const is_new = `org_new_${n}`;
    let arrive: () => void = () => undefined;
    const both = new Promise<void>((resolve) => {
      arrive = resolve;
    });
    let arrived = 0;
    const write = (chains: readonly string[]) =>
      db.transaction(async (trx) => {
        for (const chain of chains)
          await many(
            trx,
            `select write_audit_event(:chain, 'agent.changed', 'agent_x', null, null)`,
            { chain: chain === 'a new one' ? is_new : chain },
          );
        // Both commit at once, with all of their rows written.
        arrived += 1;
        if (arrived === orders.length) arrive();
        await both;
      });
    await Promise.all(orders.map(write));
  }
  expect((await audit(db)).broken).toEqual([]);
});

test('the rows of chains are locked in their order, whatever the order of the events', async () => {
  const chains = [tenant.org_id, other.org_id].sort();
  const [first, last] = chains as [string, string];
  const holder = await db.transaction();
  await many(holder, 'select from audit_heads where chain = :first for no key update', { first });
  const writing = db.transaction(async (trx) => {
    for (const chain of [last, first])
      await many(trx, `select write_audit_event(:chain, 'agent.changed', 'agent_x', null, null)`, {
        chain,
      });
  });
  await until(async () => (await locksAwaited(db)) > 0);
  // It waits for the first one, and does not hold the other meanwhile.
  const sql = 'select chain from audit_heads where chain = :last for no key update nowait';
  expect(await many(holder, sql, { last })).toEqual([{ chain: last }]);
  await holder.commit();
  await writing;
});
