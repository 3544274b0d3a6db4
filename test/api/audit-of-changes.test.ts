import { routes } from '../../api/table';
import { sha256 } from '../../domain/digest';
import { type Db, many } from '../../domain/sql';
import document from '../../openapi.json';
import { type CallApi, makeTenant, startApi, type Tenant } from '../support/api';
import { platformKey } from '../support/keys';
import { expectSides, loggedSince, newestId, silent, walked } from './audit-log/routes';
import { changesOf, pathOf } from './changes';

let db: Db;
let call: CallApi;
let close: () => Promise<void>;
let tenant: Tenant;
let platform: string;

beforeAll(async () => {
  ({ db, call, close } = await startApi());
  platform = await platformKey(db);
  tenant = await makeTenant(db);
  await many(
    db,
    `create function fail_at_commit() returns trigger language plpgsql as $$
     begin raise exception 'undone at the end of the transaction'; end $$`,
  );
});

afterAll(() => close());

const recorded = routes.filter(({ is_recorded }) => is_recorded);
const nameOf = (row: (typeof routes)[number]) => `${row.method} ${row.path}`;

test('every route that changes something is walked, here or by itself, or says why it writes no row', () => {
  const known = Object.keys(changesOf({ db, call, tenant, platform }));
  expect(recorded.map(nameOf).sort()).toEqual(known.sort());
  const named = (name: string) => name.replace(/:(\w+)/g, '{$1}');
  const documented = Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.keys(methods).map((method) => `${method} ${path}`),
  );
  const writing = documented.filter((name) => /^(post|put|patch|delete) /.test(name));
  const all = [...known.map(named), ...Object.values(walked).flat(), ...Object.keys(silent)];
  expect(all.sort()).toEqual(writing.sort());
});

test.each(recorded.map((row) => [nameOf(row), row] as const))(
  '%s leaves its audit event with who did it, and none if it is undone',
  async (name, row) => {
    const change = changesOf({ db, call, tenant, platform })[name];
    const { body, of, actions = [], by_member } = change ?? {};
    const ofOrganization = by_member ? tenant.member_key : tenant.owner_key;
    const key = row.access.label === 'platform:admin' ? platform : ofOrganization;
    const [{ id: key_id }] = (await many<{ id: string }>(
      db,
      'select s.token_id as id from token_secrets s where s.hash = :hash',
      { hash: await sha256(key) },
    )) as [{ id: string }];
    const actor = by_member ? tenant.member_id : key_id;
    const id = await of?.();
    const sent = typeof body === 'function' ? await body() : body;
    const send = () =>
      call(row.method, pathOf(row.path, id, tenant), {
        key,
        body: sent,
        headers: { 'x-request-id': 'label-7' },
      });
    const before = await newestId(db);

    await many(
      db,
      `create constraint trigger fail after insert on audit_events deferrable initially deferred
       for each row execute function fail_at_commit()`,
    );
    const undone = await send();
    await many(db, 'drop trigger fail on audit_events');
    expect(undone.status).toBe(500);
    expect(await loggedSince(db, before)).toEqual([]);

    // It was undone whole, or it could not be made now.
    expect((await send()).status).toBeLessThan(300);
    const events = await loggedSince(db, before);
    expect(events.map(({ action }) => action).sort()).toEqual([...actions].sort());
    expectSides(events);
    for (const event of events) {
      expect(event).toMatchObject({ actor, key_id, request_id: 'label-7' });
      const ofPlatform =
        /^(price|price_import|exchange_rate|payment_(provider|config)|gateway_config|config_rollout|identity_issuer)\./;
      if (!name.startsWith('post /v1/admin/organizations'))
        expect(event.org_id).toBe(ofPlatform.test(event.action) ? null : tenant.org_id);
    }
  },
);
