import { randomBytes } from 'node:crypto';
import { createServer } from 'node:http';
import { createApp } from '../../api/app';
import { openConfigWatch } from '../../api/http/config-watch';
import { openRefused } from '../../api/http/refused';
import { type Batches, openBatches } from '../../api/ledger/batches';
import { openWaiters } from '../../api/ledger/waiters';
import * as reservations from '../../domain/ledger/reservations';
import { createSecrets } from '../../domain/secrets';
import { type Db, withRetry } from '../../domain/sql';
import { openDatabase } from '../../runtime/database';
import { createLog } from '../../runtime/log';
import { openTemporal } from '../../temporal/client';

// One API process for the bench: the product's app, with its batches or with a transaction of its
// own for each call.
const database_url = process.env.DATABASE_URL as string;
const db = openDatabase(database_url, 10, 'bench-api');
const log = createLog('bench-api', 'error');
const batches = process.env.BATCHES === 'off' ? withoutBatches(db) : openBatches(db, log);
const waiters = openWaiters({ db, batches, database_url, log });
const config_watch = openConfigWatch({ db, database_url, log });
// No route that the bench calls needs Temporal.
const temporal = openTemporal({ address: '127.0.0.1:1', namespace: 'svc' }, db);
const secrets = createSecrets(randomBytes(32).toString('base64'));
const isDraining = () => false;
const app = createApp(
  {
    pools: { people: db, reads: db, machine: db },
    batches,
    waiters,
    config_watch,
    refused_requests: openRefused(db, log),
    temporal,
    secrets,
    isDraining,
    payment_hosts: [],
  },
  log,
);
createServer(app.callback()).listen(Number(process.env.PORT), '127.0.0.1');

function withoutBatches(pool: Db): Batches {
  const send = async (org_id: string, batch: Parameters<typeof reservations.reserveBatch>[2]) => {
    const [row] = await withRetry(() => reservations.reserveBatch(pool, org_id, batch));
    return row as reservations.ItemAnswer;
  };
  return {
    reserve: (body) => send(body.org_id, { reserves: [reservations.reserveItem(body)] }),
    settle: (body) => send(body.org_id, { settlements: [reservations.settleItem(body)] }),
    tell: () => Promise.reject(new Error('Nobody sends events here.')),
    redeem: (body) => send(body.org_id, { redeems: [reservations.redeemItem(body)] }),
    priceLines: async () => undefined,
    close: async () => undefined,
  };
}
