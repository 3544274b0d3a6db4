import { randomUUID } from 'node:crypto';
import { audit } from '../../domain/ledger/audit';
import { type Db, many } from '../../domain/sql';
import { migrationNames, migrationText } from '../../migrations/files';
import { openDatabase } from '../../runtime/database';
import { maintenanceUrl } from '../../sandbox/servers/database';
import { patient } from '../support/database';

// Audit events of before there were chains get their links as they are migrated.

const CHAINED = '0089';

/** A question mark is an operator here, not a binding. */
async function apply(db: Db, name: string): Promise<void> {
  await db.raw((await migrationText(name)).replaceAll('?', '\\?'));
}

test('old audit events are linked in their order, with who acted, and later ones follow', async () => {
  const template = process.env.TEST_DATABASE_URL as string;
  const admin = patient(openDatabase(maintenanceUrl(template), 1));
  const name = `test_${randomUUID().replaceAll('-', '')}`;
  await many(admin, `create database ${name}`);
  const url = Object.assign(new URL(template), { pathname: `/${name}` }).toString();
  const db = patient(openDatabase(url, 2));
  try {
    const names = await migrationNames();
    for (const one of names.filter((file) => file < CHAINED)) await apply(db, one);
    await db.raw(`select set_config('svc.actor', 'terminal', false)`);
    await db.transaction(async (trx) => {
      await many(trx, `select set_config('svc.actor', 'user_ann', true)`);
      await many(trx, `insert into users (id, name) values ('user_ann', 'Ann')`);
      await many(trx, `insert into organizations (id, name) values ('org_a', 'A'), ('org_b', 'B')`);
      await many(
        trx,
        `insert into agents (org_id, name) select 'org_a', 'Agent ' || n from generate_series(1, 20) as n`,
      );
      await many(
        trx,
        `insert into exchange_rates (currency, rate, updated_at) values ('EUR', 0.9, now())`,
      );
    });
    const old = await many<{ id: string }>(db, 'select id from audit_events');
    for (const one of names.filter((file) => file >= CHAINED)) await apply(db, one);
    await many(db, `insert into agents (org_id, name) values ('org_a', 'Newest')`);
    const links = await many<{ chain: string; seq: bigint; event_id: string; actor_type: string }>(
      db,
      `select l.chain, l.seq, l.event_id, e.actor_type from audit_links l join audit_events e on e.id = l.event_id
       order by l.chain, l.seq`,
    );
    expect(links).toHaveLength(old.length + 1);
    const chainOf = (chain: string) => links.filter((link) => link.chain === chain);
    expect(chainOf('org_a').map(({ seq }) => seq)).toEqual(
      Array.from({ length: 22 }, (_, n) => BigInt(n + 1)),
    );
    const ids = chainOf('org_a').map(({ event_id }) => event_id);
    expect(ids).toEqual([...ids].sort());
    expect([chainOf('org_b').length, chainOf('platform').length]).toEqual([1, 1]);
    expect(chainOf('org_b')[0]?.actor_type).toBe('user');
    expect((await audit(db)).broken).toEqual([]);
    await expect(many(db, 'delete from audit_events')).rejects.toThrow('kept as they were written');
  } finally {
    await db.destroy();
    await many(admin, `drop database ${name} with (force)`);
    await admin.destroy();
  }
});
