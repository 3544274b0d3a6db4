import { randomBytes } from 'node:crypto';
import { createServer } from 'node:http';
import { createApp } from '../../api/app';
import { createLanes, type Lanes } from '../../api/ledger/lanes';
import { openWaiters } from '../../api/ledger/waiters';
import * as reservations from '../../domain/ledger/reservations';
import { createSecrets } from '../../domain/secrets';
import { type Db, withRetry } from '../../domain/sql';
import { openDatabase } from '../../runtime/database';
import { createLog } from '../../runtime/log';
import { openTemporal } from '../../temporal/client';

// One API process for the bench: the product's app, with its lanes or with a transaction of its own
// for each call.
const database_url = process.env.DATABASE_URL as string;
const db = openDatabase(database_url, 10, 'bench-api');
const log = createLog('bench-api', 'error');
const lanes = process.env.LANES === 'off' ? withoutLanes(db) : createLanes(db, log);
const waiters = openWaiters({ db, lanes, database_url, log });
// No route that the bench calls needs Temporal.
const temporal = openTemporal({ address: '127.0.0.1:1', namespace: 'svc' }, db);
const secrets = createSecrets(randomBytes(32).toString('base64'));
createServer(createApp({ db, lanes, waiters, temporal, secrets }, log).callback()).listen(
  Number(process.env.PORT),
  '127.0.0.1',
);

function withoutLanes(pool: Db): Lanes {
  const send = async (org_id: string, batch: Parameters<typeof reservations.lane>[2]) => {
    const [row] = await withRetry(() => reservations.lane(pool, org_id, batch));
    return row as reservations.LaneAnswer;
  };
  return {
    reserve: (body) => send(body.org_id, { reserves: [reservations.reserveItem(body)] }),
    settle: (body) => send(body.org_id, { settlements: [reservations.settleItem(body)] }),
    redeem: (body) => send(body.org_id, { redeems: [reservations.redeemItem(body)] }),
    close: async () => undefined,
  };
}
