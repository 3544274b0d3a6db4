import { openPools, type Pools } from '../../../api/http/pools';
import { type Db, many, one } from '../../../domain/sql';
import { createLog } from '../../../runtime/log';
import { type CallApi, makeTenant, serve } from '../../support/api';
import { openTestDatabase, patient, type TestDatabase } from '../../support/database';
import { gatewayToken, platformKey } from '../../support/keys';
import { makePrice, reserveBody } from '../../support/ledger';
import { until } from '../../support/until';

let database: TestDatabase;
let db: Db;
let pools: Pools;
const lines: { code: string }[] = [];
let call: CallApi;
let closeServer: () => Promise<void>;

beforeAll(async () => {
  database = await openTestDatabase();
  ({ db } = database);
  const { machine, people, reads } = openPools({
    DATABASE_URL: database.url,
    DATABASE_POOL_MAX: 2,
    DATABASE_PEOPLE_POOL_MAX: 1,
  });
  pools = { machine: patient(machine), people: patient(people), reads: patient(reads) };
  const log = createLog('test', 'silent');
  Object.assign(log, { warn: (given: { code: string }) => lines.push(given) });
  ({ call, close: closeServer } = await serve({ db, pools, log }));
});

afterAll(async () => {
  await closeServer();
  for (const pool of Object.values(pools)) await pool.destroy();
  await database.close();
});

test('only what people read has a time-out, 5 s', async () => {
  const timeouts = Object.entries(pools).map(async ([lane, pool]) => {
    const { statement_timeout } = await one<{ statement_timeout: string }>(
      pool,
      'show statement_timeout',
    );
    return [lane, statement_timeout];
  });
  expect(Object.fromEntries(await Promise.all(timeouts))).toEqual({
    machine: '0',
    people: '0',
    reads: '5s',
  });
});

test('while the connections of people who read are all in use, gateways reserve, people write, and /readyz says it', async () => {
  await makePrice(db);
  const { org_id, owner_key } = await makeTenant(db);
  const key = await gatewayToken(db);
  const busy = await pools.reads.transaction();
  const reading = call('get', `/v1/organizations/${org_id}/agents`, { key: owner_key });
  await until(async () => (await call('get', '/readyz')).body.exhausted_pools.length > 0);
  const body = reserveBody(org_id, 10);
  const reserved = await call('post', '/v1/gateway/wallets/reserve', { key, body });
  expect(reserved.status).toBe(402);
  const named = { name: 'New' };
  expect(
    (await call('post', `/v1/organizations/${org_id}/agents`, { key: owner_key, body: named }))
      .status,
  ).toBe(201);
  const ready = await call('get', '/readyz');
  expect(ready.body).toEqual({ status: 'ready', exhausted_pools: ['reads'] });
  await busy.rollback();
  expect((await reading).status).toBe(200);
  expect((await call('get', '/readyz')).body.exhausted_pools).toEqual([]);
});

test('what takes too long to read is 503 with Retry-After, which the official clients repeat, and says what to ask for', async () => {
  const platform = await platformKey(db);
  await many(
    db,
    `alter function events_before rename to events_before_really;
     create function events_before(text, text, timestamptz, timestamptz, text[], text, text, text, integer, integer)
     returns setof scanned_event language sql as $$ select null::events, false from pg_sleep(7) $$`,
  );
  const { org_id } = await makeTenant(db);
  const answer = await call('get', `/v1/events?org_id=${org_id}`, { key: platform });
  expect(answer.status).toBe(503);
  expect(answer.headers['retry-after']).toBe('2');
  expect(answer.body.error.code).toBe('unavailable');
  expect(answer.body.error.message).toMatch(/shorter period, a narrower filter or a smaller page/);
  expect(answer.body.error.message).not.toMatch(/dependency/);
  expect((await call('get', '/readyz')).status).toBe(200);
});

test.each([
  ['53100', 'the disk is full'],
  ['25006', 'it is read-only'],
  ['53300', 'it has no connections left'],
  ['55000', 'it takes no connections'],
  ['28P01', 'the password is wrong'],
])(
  'a database that refuses with %s (%s) is 503 with Retry-After, not ready, and one line in the log',
  async (code) => {
    const { org_id, owner_key } = await makeTenant(db);
    await many(
      db,
      `create or replace function refuse() returns trigger language plpgsql as
     $$ begin raise exception 'refused' using errcode = '${code}'; end $$;
     create or replace trigger refuse before insert on agents for each row execute function refuse()`,
    );
    lines.length = 0;
    for (let n = 0; n < 3; n += 1) {
      const body = { name: 'New' };
      const answer = await call('post', `/v1/organizations/${org_id}/agents`, {
        key: owner_key,
        body,
      });
      expect(answer.status).toBe(503);
      expect(Number(answer.headers['retry-after'])).toBeGreaterThan(0);
    }
    expect(lines.map((line) => line.code)).toEqual([code]);
    const ready = await call('get', '/readyz');
    expect([ready.status, ready.headers['retry-after']]).toEqual([503, '2']);
    await many(db, 'drop trigger refuse on agents');
  },
);
