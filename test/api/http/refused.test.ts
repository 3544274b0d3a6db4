import { type Db, many } from '../../../domain/sql';
import { type CallApi, makeTenant, startApi, type Tenant } from '../../support/api';
import { until } from '../../support/until';

// Who lacks a right leaves an event, once a minute and route.

let db: Db;
let call: CallApi;
let close: () => Promise<void>;
let tenant: Tenant;

beforeAll(async () => {
  ({ db, call, close } = await startApi());
});
beforeEach(async () => {
  tenant = await makeTenant(db);
});
afterAll(() => close());

interface Refused {
  action: string;
  trace_label: string;
  payload: Record<string, unknown>;
}

const refusedOf = ({ org_id }: Tenant) =>
  many<Refused>(
    db,
    `select action, trace_label, payload from events where org_id = :org_id and type = 'request.refused' order by id`,
    { org_id },
  );

test('a member without the permission is told of, and a flood of them is one event', async () => {
  const flood = Array.from({ length: 20 }, () =>
    call('get', '/v1/audit-log', {
      ...{ key: tenant.member_key, headers: { 'x-request-id': 'label-5' } },
    }),
  );
  for (const { status } of await Promise.all(flood)) expect(status).toBe(403);
  await until(async () => (await refusedOf(tenant)).length > 0);
  expect(await refusedOf(tenant)).toEqual([
    {
      action: 'refused',
      trace_label: 'label-5',
      payload: {
        ...{ code: 'permission_denied', count: 1, route: 'get /v1/audit-log' },
        ...{ user_id: tenant.member_id, key_id: expect.stringMatching(/^key_/) },
      },
    },
  ]);
  const seen = await call('get', '/v1/events?type=request.refused', { key: tenant.owner_key });
  expect(seen.body.events).toHaveLength(1);
});

test('what a handler refuses for want of a right is told of too; other refusals are not', async () => {
  const key = tenant.member_key;
  expect((await call('get', '/v1/cost-tickets', { key })).status).toBe(403);
  expect((await call('get', '/v1/admin/organizations', { key })).status).toBe(403);
  expect((await call('get', '/v1/wallets/wal_x', { key: tenant.billing_key })).status).toBe(404);
  await until(async () => (await refusedOf(tenant)).length === 2);
  const routes = (await refusedOf(tenant)).map(({ payload }) => payload.route);
  expect(routes.sort()).toEqual(['get /v1/admin/organizations', 'get /v1/cost-tickets']);
});
