import { setTimeout as sleep } from 'node:timers/promises';
import knex from 'knex';
import { openConfigWatch } from '../../../api/http/config-watch';
import * as configs from '../../../domain/gateways/configs';
import type { Db } from '../../../domain/sql';
import { createLog } from '../../../runtime/log';
import { openTestDatabase, type TestDatabase } from '../../support/database';
import { until } from '../../support/until';
import { plainConfig } from './making';

// PostgreSQL tells of a change once: what cannot be read at that moment is read later.

let database: TestDatabase;
/** Longer than a failed read is left alone. */
const AGAIN_MS = 1_000;
/** A pool of one connection, for which nobody waits long. */
let narrow: Db & { destroy(): Promise<void> };

beforeAll(async () => {
  database = await openTestDatabase();
  narrow = knex({
    ...database.db.client.config,
    pool: { min: 0, max: 1 },
    acquireConnectionTimeout: 100,
  });
});
afterAll(async () => {
  await narrow.destroy();
  await database.close();
});

const put = () =>
  configs.put(database.db, { config: plainConfig(), config_hash: null, note: null, by: 'test' });

/** A watch over the narrow pool; how often its reads have failed. */
function watch() {
  const log = createLog('test', 'silent');
  let failed = 0;
  const count = () => {
    failed += 1;
  };
  Object.assign(log, { warn: count });
  const opened = openConfigWatch({ db: narrow, database_url: database.url, log });
  return { ...opened, failed: () => failed };
}

test('a change whose read fails wakes those that wait once it can be read', async () => {
  const { desired, close, failed } = watch();
  const { version: before } = await put();
  const wait = { known: Number(before), wait_ms: 600_000, gone: new AbortController().signal };
  const waiting = [1, 2, 3].map((n) => desired({ id: `gw${n}`, group: 'default' }, wait));
  const joined = await desired({ id: 'gw0', group: 'default' }, { ...wait, wait_ms: 0 });
  expect(joined.version).toBe(Number(before));
  const busy = await narrow.transaction();
  const { version } = await put();
  // The notice, and two more tries.
  await until(() => failed() >= 3);
  await busy.rollback();
  for (const { version: woken } of await Promise.all(waiting)) expect(woken).toBe(Number(version));
  await close();
});

test('a read that fails is not tried again once nobody waits', async () => {
  const { desired, close, failed } = watch();
  const { version } = await put();
  const gone = new AbortController();
  const wait = { known: Number(version), wait_ms: 600_000, gone: gone.signal };
  const waiting = desired({ id: 'gw', group: 'default' }, wait);
  await desired({ id: 'gw0', group: 'default' }, { ...wait, wait_ms: 0 });
  const busy = await narrow.transaction();
  await put();
  // The notice of the first change may come late, too.
  await until(() => failed() >= 1);
  await close();
  // It is answered as well as can be: what it asks for then cannot be read either.
  await expect(waiting).rejects.toThrow();
  await busy.rollback();
  const before = failed();
  await sleep(AGAIN_MS);
  expect(failed()).toBe(before);
});

test('a gateway that another process has told of a change is not sent back by one that has not heard of it', async () => {
  // Its notices are of another database.
  const elsewhere = new URL(database.url);
  elsewhere.pathname = '/postgres';
  const parts = { db: database.db, database_url: elsewhere.href, log: createLog('test', 'silent') };
  const { desired, close } = openConfigWatch(parts);
  const asking = { id: 'gw', group: 'default' };
  const told = async (known: number) => {
    const wait = { known, wait_ms: 100, gone: new AbortController().signal };
    return (await desired(asking, wait)).version;
  };
  const first = Number((await put()).version);
  expect(await told(first)).toBe(first);
  const second = Number((await put()).version);
  expect(await told(second)).toBe(second);
  await close();
});
