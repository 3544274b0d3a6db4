import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import * as members from '../../../domain/people/members';
import * as codes from '../../../domain/people/one-time-codes';
import { many } from '../../../domain/sql';
import { root } from '../../../runtime/root';
import { makeTenant, refusal, startApi, type Tenant, type TestApi } from '../../support/api';

let api: TestApi;
let tenant: Tenant;
const run = promisify(execFile);

beforeAll(async () => {
  api = await startApi();
  tenant = await makeTenant(api.db);
});

afterAll(() => api.close());

beforeEach(() => many(api.db, 'delete from sign_in_tries'));

const signIn = (one_time_code: string, more: object = {}) =>
  api.call('post', '/v1/sessions', { body: { one_time_code, ...more } });

function makeCode(): Promise<{ code: string }> {
  const { org_id, member_id: user_id } = tenant;
  const by = { id: 'terminal', user_id: null, scopes: [] };
  return api.db.transaction((trx) =>
    codes.create(trx, { purpose: 'session', org_id, user_id, by }),
  );
}

test('a code of the terminal opens one session of its person, with what their role allows', async () => {
  const { stdout } = await run(
    process.execPath,
    ['run.cjs', 'api/admin.ts', 'sign-in', tenant.member_id],
    { cwd: root, env: { ...process.env, DATABASE_URL: api.database_url } },
  );
  const code = stdout.trim();
  const { status, body } = await signIn(code);
  expect(status).toBe(201);
  expect(body).toMatchObject({
    org_id: tenant.org_id,
    user_id: tenant.member_id,
    method: 'one_time_code',
    scopes: [],
  });
  expect(refusal(await signIn(code))).toEqual({
    status: 401,
    code: 'invalid_credential',
    param: 'one_time_code',
  });
  const kept = await many(api.db, 'select * from one_time_codes');
  expect(JSON.stringify(kept)).not.toContain(code);
});

test('of twenty who show one code at the same moment one gets a session', async () => {
  const { code } = await makeCode();
  const other = await startTries(20, code);
  expect(other.filter((status) => status === 201)).toHaveLength(1);
});

/** Tries in parallel; the bound of an address is looked at elsewhere. */
async function startTries(count: number, code: string): Promise<number[]> {
  const statuses: number[] = [];
  for (let n = 0; n < count; n += 10) {
    await many(api.db, 'delete from sign_in_tries');
    const answers = await Promise.all(Array.from({ length: 10 }, () => signIn(code)));
    statuses.push(...answers.map(({ status }) => status));
  }
  return statuses;
}

test('a code is good for five minutes', async () => {
  const { code } = await makeCode();
  await many(api.db, `update one_time_codes set expires_at = expires_at - interval '5 minutes'`);
  expect((await signIn(code)).status).toBe(401);
});

test('a code for an organization opens no other, and none for a person who has left', async () => {
  const { code } = await makeCode();
  const other = await makeTenant(api.db);
  expect((await signIn(code, { org_id: other.org_id })).status).toBe(404);
  const leaver = await members.add(api.db, tenant.org_id, { name: 'Ann', role: 'member' });
  const made = await api.db.transaction((trx) =>
    codes.create(trx, {
      purpose: 'session',
      org_id: tenant.org_id,
      user_id: leaver.user_id,
      by: { id: 'terminal', user_id: null, scopes: [] },
    }),
  );
  const at = `/v1/organizations/${tenant.org_id}/members/${leaver.user_id}`;
  await api.call('delete', at, { key: tenant.owner_key });
  expect((await signIn(made.code)).status).toBe(403);
});
