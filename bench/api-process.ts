import { createServer } from 'node:http';
import { createApp } from '../api/app';
import { createLanes, type Lanes } from '../api/lanes';
import { openDatabase } from '../connections';
import * as reservations from '../domain/reservations';
import { type Db, withRetry } from '../domain/sql';
import { createLog } from '../log';

// One API process for the bench: the product's app, with its lanes or with a transaction of its own for each call.
const db = openDatabase(process.env.DATABASE_URL as string, 10, 'bench-api');
const log = createLog('bench-api', 'error');
const lanes = process.env.LANES === 'off' ? withoutLanes(db) : createLanes(db, log);
createServer(createApp({ db, lanes }, log).callback()).listen(
  Number(process.env.PORT),
  '127.0.0.1',
);

function withoutLanes(pool: Db): Lanes {
  const send = async (org_id: string, batch: Parameters<typeof reservations.lane>[2]) => {
    const [row] = await withRetry(() => reservations.lane(pool, org_id, batch));
    return row as reservations.LaneAnswer;
  };
  return {
    reserve: (body) =>
      send(body.org_id, { settlements: [], reserves: [reservations.reserveItem(body)] }),
    settle: (body) =>
      send(body.org_id, { settlements: [reservations.settleItem(body)], reserves: [] }),
    close: async () => undefined,
  };
}
