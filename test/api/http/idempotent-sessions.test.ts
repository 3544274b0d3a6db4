import { randomUUID } from 'node:crypto';
import type { Db } from '../../../domain/sql';
import { type CallApi, makePerson, makeTenant, startApi, type Tenant } from '../../support/api';
import { platformKey } from '../../support/keys';
import { until } from '../../support/until';

// An Idempotency-Key is its person's, over sessions that end and begin.

let db: Db;
let call: CallApi;
let close: () => Promise<void>;
let tenant: Tenant;

beforeAll(async () => {
  ({ db, call, close } = await startApi());
  tenant = await makeTenant(db);
});

afterAll(() => close());

interface Given {
  id: string;
  key: string;
  path?: string;
  body?: object;
}

const credit = { target_wallet_owner_type: 'organization', amount: 1 };

function post({ id, key, path = '/v1/wallets/credit', body = credit }: Given) {
  return call('post', path, { key, body, headers: { 'idempotency-key': id } });
}

async function entries(): Promise<number> {
  const [row] = await db('wallets').where({ id: tenant.wallet_id }).select('seq');
  return Number(row.seq);
}

test("a person's key holds in their next session: a credit is made once", async () => {
  const { key: owner } = await makePerson({ db, call }, tenant, 'owner');
  const session = async (access_key: string) => {
    const made = await call('post', '/v1/sessions', { body: { access_key } });
    expect(made.status).toBe(201);
    return made.body.key as string;
  };
  const id = randomUUID();
  const before = await entries();
  const key = await session(owner);
  const first = await post({ id, key });
  expect(first.status).toBe(201);
  await call('delete', '/v1/sessions/current', { key });
  const again = await post({ id, key: await session(owner) });
  expect([again.status, again.text]).toEqual([201, first.text]);
  expect(again.headers['idempotent-replayed']).toBe('true');
  expect(await entries()).toBe(before + 1);
  // A platform key's sessions are one sender too, and the key itself is another than its person.
  const platform = await platformKey(db);
  const given = {
    id,
    path: '/v1/admin/wallets/credit',
    body: { ...credit, org_id: tenant.org_id },
  };
  const one = await post({ ...given, key: await session(platform) });
  const two = await post({ ...given, key: await session(platform) });
  expect([two.status, two.text]).toEqual([one.status, one.text]);
  const byKey = await post({ id, key: owner });
  expect(byKey.body.transaction.id).not.toBe(first.body.transaction.id);
});

test('a session that ends while its call waits is told so, and the next session does the call', async () => {
  const { key: owner } = await makePerson({ db, call }, tenant, 'owner');
  const session = async () => {
    const { body } = await call('post', '/v1/sessions', { body: { access_key: owner } });
    return body.key as string;
  };
  const [id, key] = [randomUUID(), await session()];
  const before = await entries();
  const holding = await db.transaction();
  await holding.raw('select lock_organization(?)', [tenant.org_id]);
  const waiting = post({ id, key });
  await until(
    async () =>
      (
        await db.raw(
          `select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`,
        )
      ).rows.length > 0,
  );
  await call('delete', '/v1/sessions/current', { key });
  await holding.commit();
  expect((await waiting).status).toBe(401);
  const again = await post({ id, key: await session() });
  expect([again.status, again.headers['idempotent-replayed']]).toEqual([201, undefined]);
  expect(await entries()).toBe(before + 1);
});
