import { openRefused } from '../../../api/http/refused';
import { type Db, many } from '../../../domain/sql';
import { createLog } from '../../../runtime/log';
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
  // A second one would be written before this other one, which is asked for last.
  expect((await call('get', '/v1/audit-events', { key: tenant.member_key })).status).toBe(403);
  const isLast = ({ payload }: Refused) => payload.route === 'get /v1/audit-events';
  await until(async () => (await refusedOf(tenant)).some(isLast));
  const told = await refusedOf(tenant);
  expect(told.filter((one) => !isLast(one))).toEqual([
    {
      action: 'refused',
      trace_label: 'label-5',
      payload: {
        ...{ code: 'permission_denied', count: 1, route: 'get /v1/audit-log' },
        ...{ user_id: tenant.member_id, key_id: expect.stringMatching(/^key_/) },
      },
    },
  ]);
  // Whoever reads events stays below the oldest transaction under way, of whatever database.
  await until(async () => {
    const path = '/v1/events?type=request.refused';
    const { body } = await call('get', path, { key: tenant.owner_key });
    return body.events.length === told.length;
  });
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

test('what a flood leaves is told of as the process stops', async () => {
  const refused = openRefused(db, createLog('test', 'silent'));
  const { org_id, member_id: user_id } = tenant;
  const principal = { id: user_id, org_id, user_id, scopes: [], lasting_key_id: null };
  for (let n = 0; n < 10; n += 1)
    refused.tell({ principal, method: 'get', path: '/v1/flooded', request_id: `label-${n}` });
  await refused.close();
  expect((await refusedOf(tenant)).map(({ payload }) => payload.count).sort()).toEqual([1, 9]);
});
