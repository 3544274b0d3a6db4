import { refusalsOf } from '../../../api/openapi/refusals';
import { routes } from '../../../api/table';
import { type CallApi, makeTenant, startApi, type Tenant } from '../../support/api';
import { gatewayToken, makeKey, platformKey } from '../../support/keys';

// Every route meets every caller, and one that is for everybody every kind of wrong body; others do
// in test/api/http/access.test.ts. That what a route answers is listed is looked at with each
// answer, here and in all other tests (test/support/api.ts).

let call: CallApi;
let close: () => Promise<void>;
let tenant: Tenant;
const keys: Record<string, string | undefined> = {};

beforeAll(async () => {
  const api = await startApi();
  ({ call, close } = api);
  tenant = await makeTenant(api.db);
  const suspended = await makeTenant(api.db);
  keys.nobody = undefined;
  keys.unknown = 'svc_ak_unknown';
  keys.gateway = await makeKey(api.db, tenant.org_id, { token_type: 'gateway' });
  keys.member = tenant.member_key;
  keys.owner = tenant.owner_key;
  keys.suspended = suspended.owner_key;
  keys.platform = await platformKey(api.db);
  keys.machine = await gatewayToken(api.db);
  await call('post', `/v1/admin/organizations/${suspended.org_id}/suspend`, {
    ...{ key: keys.platform, body: {} },
  });
});

afterAll(() => close());

const refusing = routes.filter(({ path }) => !path.endsWith('/stream'));

const as_json = { headers: { 'content-type': 'application/json' } };

/** Bodies that no route takes. */
const wrong = [
  { body: { unknown: 1 } },
  { body: '{', ...as_json },
  { body: '[]', ...as_json },
  { body: '{"name": "a", "name": "b"}', ...as_json },
  { body: JSON.stringify({ name: 'x'.repeat(1_100_000) }), ...as_json },
  { body: 'a', headers: { 'content-type': 'text/plain' } },
];

test.each(refusing.map((row) => [`${row.method} ${row.path}`, row] as const))(
  '%s refuses what is wrong as the document says',
  async (_, row) => {
    const at = row.path.replace('/organizations/:id', `/organizations/${tenant.org_id}`);
    const path = at.replace(/:\w+/g, 'unknown');
    const has_body = row.method !== 'get';
    const seen = new Set<number>();
    for (const key of Object.values(keys))
      seen.add((await call(row.method, path, { key, ...(has_body ? { body: {} } : {}) })).status);
    for (const given of has_body && row.access.label === 'public' ? wrong : [])
      seen.add((await call(row.method, path, given)).status);
    if (row.access.label !== 'public')
      expect([...seen]).toEqual(expect.arrayContaining([401, 403]));
    const listed = refusalsOf(row).map(({ status }) => status);
    expect([...seen].filter((status) => status >= 400 && !listed.includes(status))).toEqual([]);
  },
);
