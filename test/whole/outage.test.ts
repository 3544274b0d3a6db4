import { randomUUID } from 'node:crypto';
import pino from 'pino';
import * as keys from '../../domain/people/keys';
import { type Db, many } from '../../domain/sql';
import { openDatabase } from '../../runtime/database';
import { maintenanceUrl } from '../../sandbox/servers/database';
import {
  type Answer,
  type CallApi,
  makeTenant,
  refusal,
  serve,
  startApi,
  type Tenant,
} from '../support/api';
import { gatewayToken, platformKey } from '../support/keys';
import { makePrice, reserveBody, settleBody } from '../support/ledger';
import { until } from '../support/until';

let db: Db;
let database_url: string;
let call: CallApi;
let close: () => Promise<void>;
let tenant: Tenant;

beforeAll(async () => {
  ({ db, database_url, call, close } = await startApi());
  tenant = await makeTenant(db);
  await makePrice(db);
});

afterAll(() => close());

/** Ends every session of the database, up to thirty times while the work runs, not after it. */
async function underFire<T>(work: () => Promise<T>): Promise<{ result: T; killed: number }> {
  const admin = openDatabase(maintenanceUrl(database_url), 1);
  const killed: number[] = [];
  let working = true;
  const fire = async () => {
    for (let round = 0; working && round < 30; round += 1) {
      const rows = await many<{ pid: number }>(
        admin,
        `select pid, pg_terminate_backend(pid) from pg_stat_activity
         where datname = :name and pid <> pg_backend_pid()`,
        { name: new URL(database_url).pathname.slice(1) },
      );
      killed.push(...rows.map(({ pid }) => pid));
      // The next round comes after the service has answered a little more, whatever it answered.
      await answered(5);
    }
  };
  const done = work().finally(() => {
    working = false;
  });
  const [result] = await Promise.all([done, fire()]);
  // A session that was told to end may still be there: it must not end beneath what is asked next.
  const left = 'select 1 from pg_stat_activity where pid = any(:killed)';
  await until(async () => (await many(admin, left, { killed })).length === 0);
  // One more round trip lets this process see every end.
  await many(admin, 'select 1');
  await admin.destroy();
  return { result, killed: killed.length };
}

let answers = 0;

/** Resolves after so many more answers, or at the end of the work. */
async function answered(more: number): Promise<void> {
  const goal = answers + more;
  await until(() => answers >= goal || in_flight === 0);
}

let in_flight = 0;

/** Repeats a call until it is answered otherwise than 503; every 503 must say when to come back. */
async function persist(send: () => Promise<Answer>): Promise<Answer & { refused: number }> {
  for (let refused = 0; refused < 500; refused += 1) {
    in_flight += 1;
    const answer = await send();
    in_flight -= 1;
    answers += 1;
    if (answer.status !== 503) return { ...answer, refused };
    expect(Number(answer.headers['retry-after'])).toBeGreaterThanOrEqual(1);
    expect(answer.body.error.type).toBe('overloaded_error');
  }
  throw new Error('Still 503 after 500 tries.');
}

test('a database that loses its sessions in mid-flight gives 503 with Retry-After, and no acknowledged credit is lost or doubled', async () => {
  const credit = async () => {
    const headers = { 'idempotency-key': randomUUID() };
    const body = { target_wallet_owner_type: 'organization', amount: 1 };
    return persist(() =>
      call('post', '/v1/wallets/credit', { key: tenant.billing_key, body, headers }),
    );
  };
  const { result, killed } = await underFire(() => Promise.all(Array.from({ length: 60 }, credit)));
  expect(killed).toBeGreaterThan(0);
  expect(result.map(({ status }) => status)).toEqual(Array(60).fill(201));
  const { body } = await call('get', `/v1/wallets/${tenant.wallet_id}/transactions`, {
    key: tenant.billing_key,
  });
  expect([body.total, body.transactions[0].balance_after]).toEqual([60, 60]);
});

test('reserves and settlements repeated with their ids through the same fire hold and charge once', async () => {
  const key = await gatewayToken(db);
  const before = (await call('get', '/v1/wallets', { key: tenant.billing_key })).body.wallets[0]
    .balance;
  const cycle = async () => {
    const reserve = reserveBody(tenant.org_id, 1_000);
    const held = await persist(() =>
      call('post', '/v1/gateway/wallets/reserve', { key, body: reserve }),
    );
    const settle = settleBody(tenant.org_id, held.body.reservation_id, 500);
    return persist(() => call('post', '/v1/gateway/wallets/settle', { key, body: settle }));
  };
  const { result, killed } = await underFire(() => Promise.all(Array.from({ length: 40 }, cycle)));
  expect(killed).toBeGreaterThan(0);
  expect(result.map(({ status, body }) => [status, body.status])).toEqual(
    Array(40).fill([200, 'settled']),
  );
  const [wallet] = (await call('get', '/v1/wallets', { key: tenant.billing_key })).body.wallets;
  expect(wallet).toMatchObject({ balance: before - 0.02, reserved: 0 });
});

test('with no database every guarded call is 503 with Retry-After; alive it is, ready it is not', async () => {
  const nowhere = openDatabase('postgres://nobody@127.0.0.1:1/nothing', 2);
  const served = await serve({ db: nowhere });
  const key = await keys.newKey('access');
  for (const [method, path] of [
    ['get', '/v1/wallets'],
    ['post', '/v1/wallets/credit'],
    ['post', '/v1/gateway/wallets/reserve'],
    ['get', '/v1/model-pricing'],
    ['get', '/readyz'],
  ] as const) {
    const answer = await served.call(method, path, { key });
    expect({ path, ...refusal(answer) }).toMatchObject({ path, status: 503, code: 'unavailable' });
    expect(Number(answer.headers['retry-after'])).toBeGreaterThanOrEqual(1);
    expect(answer.text).not.toContain('127.0.0.1');
  }
  expect((await served.call('get', '/health')).body).toEqual({ status: 'ok', version: '1.5.0' });
  await served.close();
  await nowhere.destroy();
});

test('an organization whose lock is held too long gives 503, not a lack of money', async () => {
  const trx = await db.transaction();
  await many(trx, 'set local idle_in_transaction_session_timeout = 0');
  await many(trx, 'select lock_organization(:org_id)', { org_id: tenant.org_id });
  const body = { target_wallet_owner_type: 'organization', amount: 1 };
  // With the patience of the product, which others of these tests need more of.
  const own = openDatabase(database_url, 4);
  const served = await serve({ db: own });
  const asked = { key: tenant.billing_key, body };
  const answer = await served.call('post', '/v1/wallets/credit', asked);
  await trx.rollback();
  await served.close();
  await own.destroy();
  expect(refusal(answer)).toMatchObject({ status: 503, code: 'unavailable' });
  expect(Number(answer.headers['retry-after'])).toBeGreaterThanOrEqual(1);
});

/** Lets PostgreSQL undo the next inserts into teams, as it does for a deadlock. */
async function undoInserts(times: number): Promise<void> {
  await many(
    db,
    `create or replace function hiccup() returns trigger language plpgsql as $$
     begin
       if nextval('hiccups') <= ${times} then raise 'undone' using errcode = '40P01'; end if;
       return new;
     end $$;
     drop trigger if exists hiccup on teams;
     drop sequence if exists hiccups;
     create sequence hiccups;
     create trigger hiccup before insert on teams for each row execute function hiccup()`,
  );
}

test('a write that PostgreSQL undid runs again, three times in all; then it is 503 with Retry-After', async () => {
  const key = await platformKey(db);
  const path = `/v1/organizations/${tenant.org_id}/teams`;
  await undoInserts(2);
  expect((await call('post', path, { key, body: { name: 'Lucky' } })).status).toBe(201);
  await undoInserts(3);
  const answer = await call('post', path, { key, body: { name: 'Unlucky' } });
  expect(refusal(answer)).toMatchObject({ status: 503, code: 'unavailable' });
  expect(Number(answer.headers['retry-after'])).toBeGreaterThanOrEqual(1);
  await many(db, 'drop trigger hiccup on teams');
});

test('a fault in one item of a batch is logged with the id that its answer asks to quote', async () => {
  const lines: Record<string, unknown>[] = [];
  const log = pino({ base: null }, { write: (text) => void lines.push(JSON.parse(text)) });
  const fault = () => Promise.reject(new Error('a fault of the ledger'));
  const broken = {
    reserve: fault,
    settle: fault,
    redeem: fault,
    tell: fault,
    priceLines: async () => undefined,
    close: async () => undefined,
  };
  const served = await serve({ db, log, batches: broken });
  const items = [{ id: '1', op: 'reserve', body: reserveBody(tenant.org_id, 1_000) }];
  const { text } = await served.call('post', '/v1/gateway/wallets/batch', {
    key: await gatewayToken(db),
    body: { items },
  });
  const { status, body } = JSON.parse(text);
  expect([status, body.error.code]).toEqual([500, 'internal_error']);
  expect(lines).toContainEqual(
    expect.objectContaining({ msg: 'unexpected error', request_id: body.request_id }),
  );
  await served.close();
});

test('/readyz is 200 while the database answers', async () => {
  expect((await call('get', '/readyz')).status).toBe(200);
});
