import { routes } from '../../api/table';
import { sha256 } from '../../domain/digest';
import { type Db, many } from '../../domain/sql';
import { type CallApi, makeTenant, startApi, type Tenant } from '../support/api';
import { platformKey } from '../support/keys';
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

// Money that is moved by hand stands in the ledger with its actor; a person's payment in its
// session.
const elsewhere = [
  'post /v1/wallets/credit',
  'post /v1/wallets/allocate',
  'post /v1/wallets/reclaim',
  'post /v1/organizations/:id/teams/:team_id/allocate',
  'post /v1/organizations/:id/teams/:team_id/reclaim',
  'post /v1/admin/wallets/credit',
  'post /v1/admin/settlement-excess/:id',
  // It changes nothing.
  'post /v1/admin/model-pricing/preview',
  'post /v1/cost-tickets/:id/approve',
  'post /v1/cost-tickets/:id/deny',
  'post /v1/cost-tickets/verdicts',
  'post /v1/payments/create-checkout',
  'post /v1/payments/confirm-checkout',
  'post /v1/payments/sessions/:id/cancel',
  'post /v1/payments/create-order',
  'post /v1/payments/capture-order',
  'post /v1/admin/payments/refund',
  'post /v1/admin/payments/:id/resolve',
  // An export says itself who made it; a destination is recorded after its probe.
  'post /v1/exports',
  'post /v1/admin/exports',
  'delete /v1/exports/:id',
  'post /v1/export-destinations',
  // Recorded after the name of its server is resolved, or the wrong code is counted.
  'post /v1/notice-destinations',
  'put /v1/notice-destinations/:id',
  'post /v1/notice-recipients/:id/confirm',
  // It changes nothing, and the log of messages has it.
  'post /v1/notice-destinations/:id/test',
  // The ticket says who decided.
  'post /v1/ticket-links/look',
  'post /v1/ticket-links/decide',
];

const changing = routes.filter(
  ({ method, access }) => method !== 'get' && !['public', 'control_plane'].includes(access.label),
);
const recorded = changing.filter(({ is_recorded }) => is_recorded);
const nameOf = (row: (typeof routes)[number]) => `${row.method} ${row.path}`;

test('every route of people that changes something has a row here', () => {
  const known = Object.keys(changesOf({ db, call, tenant, platform }));
  expect([...known, ...elsewhere].sort()).toEqual(changing.map(nameOf).sort());
  expect(recorded.map(nameOf).sort()).toEqual(known.sort());
});

interface Recorded {
  action: string;
  actor: string;
  key_id: string;
  request_id: string;
  org_id: string | null;
}

async function since(id: string): Promise<Recorded[]> {
  return many<Recorded>(
    db,
    'select action, actor, key_id, request_id, org_id from audit_events where id > :id',
    { id },
  );
}

async function newest(): Promise<string> {
  const [row] = await many<{ id: string }>(db, `select max(id) as id from audit_events`);
  return row?.id ?? '';
}

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
    const before = await newest();

    await many(
      db,
      `create constraint trigger fail after insert on audit_events deferrable initially deferred
       for each row execute function fail_at_commit()`,
    );
    const undone = await send();
    await many(db, 'drop trigger fail on audit_events');
    expect(undone.status).toBe(500);
    expect(await since(before)).toEqual([]);

    // It was undone whole, or it could not be made now.
    expect((await send()).status).toBeLessThan(300);
    const events = await since(before);
    expect(events.map(({ action }) => action).sort()).toEqual([...actions].sort());
    for (const event of events) {
      expect(event).toMatchObject({ actor, key_id, request_id: 'label-7' });
      const ofPlatform =
        /^(price|exchange_rate|payment_(provider|config)|gateway_config|config_rollout|identity_issuer)\./;
      if (!name.startsWith('post /v1/admin/organizations'))
        expect(event.org_id).toBe(ofPlatform.test(event.action) ? null : tenant.org_id);
    }
  },
);
