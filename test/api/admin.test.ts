import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { openBatches } from '../../api/ledger/batches';
import * as providerKeys from '../../domain/gateways/provider-keys';
import { createSecrets } from '../../domain/secrets';
import { createLog } from '../../runtime/log';
import { root } from '../../runtime/root';
import { makeBudget } from '../domain/budgets/making';
import { caller, serve } from '../support/api';
import { openTestDatabase, type TestDatabase } from '../support/database';
import { makeFundedOrg, makePrice, reserveBody } from '../support/ledger';

let database: TestDatabase;

beforeAll(async () => {
  database = await openTestDatabase();
});

afterAll(() => database.close());

type Ended = { code: number; stdout: string; stderr: string };

function admin(...args: string[]): Promise<Ended> {
  return adminIn({}, ...args);
}

/** Runs a command with more variables. */
function adminIn(env: Record<string, string>, ...args: string[]): Promise<Ended> {
  return new Promise((resolve) => {
    execFile(
      process.execPath,
      ['run.cjs', 'api/admin.ts', ...args],
      { cwd: root, env: { ...process.env, DATABASE_URL: database.url, ...env } },
      (error, stdout, stderr) => resolve({ code: Number(error?.code ?? 0), stdout, stderr }),
    );
  });
}

test('bootstrap prints a platform admin key that works, once; a second one needs another name', async () => {
  const first = await admin('bootstrap');
  expect(first).toMatchObject({ code: 0, stderr: '' });
  const key = first.stdout.trim();
  expect(key).toMatch(/^svc_ak_[0-9A-Za-z]+$/);
  const api = await serve({ db: database.db });
  const answer = await caller(api.url)('get', '/v1/admin/organizations', { key });
  await api.close();
  expect(answer).toMatchObject({ status: 200, body: { organizations: [], total: 0 } });

  const second = await admin('bootstrap');
  expect(second).toMatchObject({ code: 1, stdout: '' });
  expect(second.stderr).toContain('A living key is named platform-admin.');
  expect(second.stderr).toContain('npm run admin -- bootstrap <name>');
  expect(second.stderr).not.toContain(' at ');
  expect(await admin('bootstrap', 'night shift')).toMatchObject({ code: 0 });
});

test('audit is 0 on a whole ledger and 1 with the reason on a broken one', async () => {
  const { db } = database;
  expect(await admin('audit')).toMatchObject({ code: 0, stdout: expect.stringContaining('true') });
  const [org] = await db('organizations').insert({ name: 'Broken' }).returning('id');
  await db('wallets').insert({
    org_id: org.id,
    owner_type: 'organization',
    currency: 'USD',
    balance_nanos: 5,
  });
  const broken = await admin('audit');
  expect(broken.code).toBe(1);
  expect(JSON.parse(broken.stdout)).toMatchObject({
    clean: false,
    broken: [{ check: 'balance_is_sum_of_entries', detail: 'balance 5, entries 0' }],
  });
});

test('tickets lists what is open, approves and denies from a terminal, and tells the workflow', async () => {
  const { db } = database;
  await makePrice(db);
  const org = await makeFundedOrg(db, 4);
  const lanes = openBatches(db, createLog('test', 'fatal'));
  expect((await admin('tickets')).stdout).toBe('No cost ticket is open.\n');
  const open = async (hash: string) => {
    const body = reserveBody(org.org_id, 10, { request_body_hash: `sha256:${hash.repeat(64)}` });
    return String((await lanes.reserve(body)).cost_ticket?.id);
  };
  const [yes, no] = [await open('1'), await open('2')];
  // Of a call that lacks no money the line says which budget has no room for it.
  const rich = await makeFundedOrg(db, 100);
  await makeBudget(db, rich, 6, { on_exceed: 'ticket' });
  const of_budget = await lanes.reserve(
    reserveBody(rich.org_id, 10, { request_body_hash: `sha256:${'3'.repeat(64)}` }),
  );
  const { stdout } = await admin('tickets');
  expect(stdout.split('\n')).toEqual([
    expect.stringMatching(new RegExp(`^${yes}  0.00001 USD for gpt-4o-mini, asked by Org`)),
    expect.stringMatching(new RegExp(`^${no}  `)),
    expect.stringMatching(
      new RegExp(
        `^${of_budget.cost_ticket?.id}  .*, misses 0[.]000004 USD of the budget of the organization [(]a month[)], open until`,
      ),
    ),
    '',
  ]);
  expect(await admin('tickets', 'approve', yes, 'by', 'phone')).toMatchObject({
    code: 0,
    stdout: expect.stringMatching(/, approved by terminal: by phone\n$/),
  });
  expect((await admin('tickets', 'deny', no)).stdout).toMatch(/, denied by terminal\n$/);
  expect(await admin('tickets', 'approve', no)).toMatchObject({
    code: 1,
    stderr: 'This cost ticket was denied already.\n',
  });
  await admin('tickets', 'deny', String(of_budget.cost_ticket?.id));
  expect((await admin('tickets', 'approve')).stderr).toContain('tickets approve <id>');
  expect((await admin('tickets', 'deny', 'ticket_none')).code).toBe(1);
  // Their starts were unsent, so nobody need be told.
  expect(await db('outbox').where({ workflow: 'costTicket' })).toEqual([]);
  await lanes.close();
});

test('secrets reseal seals by the first key what the second has sealed, and names what neither opens', async () => {
  const { db } = database;
  const [old_key, new_key] = [randomBytes(32), randomBytes(32)].map((key) =>
    key.toString('base64'),
  );
  const [before, after] = [createSecrets(`${old_key}`), createSecrets(`${new_key}`)];
  const { id } = await providerKeys.createOfPlatform(db, before, {
    ...{ name: 'main', key: 'key-0001', by: 'test' },
  });
  const reseal = (SVC_SECRETS_KEY: string) => adminIn({ SVC_SECRETS_KEY }, 'secrets', 'reseal');
  expect(await reseal(`${new_key},${old_key}`)).toMatchObject({
    ...{ code: 0, stdout: expect.stringContaining('1 rows are sealed') },
  });
  const opened = await providerKeys.openFor(db, after, { name: 'main' }, 'test');
  expect(opened?.key).toBe('key-0001');
  expect(await reseal(`${old_key}`)).toMatchObject({
    ...{ code: 1, stdout: expect.stringContaining(`provider_keys ${id}: a secret in it opens`) },
  });
  expect((await reseal('')).stderr).toContain('SVC_SECRETS_KEY');
  expect((await admin('secrets')).stderr).toContain('Usage: secrets reseal');
});

test('an unknown command says what there is', async () => {
  const answer = await admin('nonsense');
  expect(answer.code).toBe(2);
  expect(answer.stdout).toContain('bootstrap');
});

test('spend rebuild folds anew, of one organization or of all, and says how many', async () => {
  const { db } = database;
  const { org_id } = await makeFundedOrg(db, 10);
  const one = await admin('spend', 'rebuild', org_id);
  expect(one).toMatchObject({ code: 0, stdout: expect.stringContaining('anew: 1 organizations') });
  const editions = await db('spend_editions').where({ org_id }).select('state');
  expect(editions).toEqual([{ state: 'current' }]);
  expect(await admin('spend', 'rebuild')).toMatchObject({ code: 0 });
  expect(await admin('spend', 'rebuild', 'org_unknown')).toMatchObject({ code: 1 });
  expect((await admin('spend')).stderr).toContain('spend rebuild <org_id>');
});
