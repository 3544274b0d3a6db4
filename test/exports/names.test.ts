import { makeTenant, type Tenant } from '../support/api';
import { download, type ExportWorld, ended, lastHour, openExportWorld, rowsIn } from './world';

// What somebody is called is fixed as the export is made.

let world: ExportWorld;
let tenant: Tenant;

beforeAll(async () => {
  world = await openExportWorld();
  tenant = await makeTenant(world.db);
});

afterAll(() => world.close());

test('who is renamed between the making and the writing of an export has the old name in it', async () => {
  const { db, call, platform } = world;
  const { org_id, team_id, owner_key: key } = tenant;
  const body = {
    ...{ org_id, target_wallet_owner_type: 'team', target_wallet_owner_id: team_id, amount: 1 },
  };
  expect((await call('post', '/v1/admin/wallets/credit', { key: platform, body })).status).toBe(
    201,
  );
  const period = await lastHour();
  const kinds = ['ledger', 'statement', 'audit_log'];
  const made = await call('post', '/v1/exports', { key, body: { kinds, ...period } });
  expect(made.status).toBe(201);
  const called = async (table: string, id: string) =>
    (await db(table).where({ id }).select('name'))[0].name as string;
  const team = await called('teams', team_id);
  const organization = await called('organizations', org_id);
  for (const [table, id] of Object.entries({ teams: team_id, organizations: org_id }))
    await db(table).where({ id }).update({ name: 'Renamed since' });
  const exporter = await world.startExporter();
  const done = await ended(world, key, made.body.id);
  await exporter.stop();
  expect(done.status).toBe('completed');
  const named = async (kind: string, member: string) => {
    const files = done.files.filter((one: { kind: string; sha256: string | null }) => {
      return one.kind === kind && one.sha256 !== null;
    });
    const rows = [];
    for (const { n } of files)
      rows.push(...rowsIn((await download(world, key, `${done.id}/files/${n}`)).bytes));
    return rows.map((row) => row[member]);
  };
  expect(await named('ledger', 'wallet_owner_name')).toContain(team);
  expect(await named('statement', 'owner_name')).toContain(team);
  expect(new Set(await named('statement', 'org_name'))).toEqual(new Set([organization]));
  expect((await named('audit_log', 'actor_name')).some((name) => typeof name === 'string')).toBe(
    true,
  );
  const left = await db('export_names').where({ export_id: done.id });
  expect(left).toEqual([]);
});
