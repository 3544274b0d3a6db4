import { openBatches } from '../../../api/ledger/batches';
import type { Db } from '../../../domain/sql';
import { createLog } from '../../../runtime/log';
import { call as settled } from '../../domain/spend/world';
import { type CallApi, makeTenant, startApi } from '../../support/api';
import { platformKey } from '../../support/keys';
import { credit, makePrice } from '../../support/ledger';

let db: Db;
let call: CallApi;
let close: () => Promise<void>;
let lanes: ReturnType<typeof openBatches>;

beforeAll(async () => {
  ({ db, call, close } = await startApi());
  lanes = openBatches(db, createLog('test', 'fatal'));
  await makePrice(db);
});
afterAll(async () => {
  await lanes.close();
  await close();
});

test('a change of a price is previewed on what calls have used, and changes nothing', async () => {
  const platform = await platformKey(db);
  const { org_id, wallet_id } = await makeTenant(db);
  await credit(db, org_id, wallet_id, 10n ** 12n);
  const preview = (body: object) =>
    call('post', '/v1/admin/model-pricing/preview', { key: platform, body });
  const price = { provider: 'openai', model: 'gpt-4o-mini', input_per_1m: 3, output_per_1m: 2 };
  await settled({ db, lanes }, org_id, 1_000, undefined);
  await settled({ db, lanes }, org_id, 500, undefined);
  const prices = await db('model_prices').count();
  const { status, body } = await preview({ ...price, days: 1 });
  expect([status, body]).toEqual([
    200,
    {
      ...{ provider: 'openai', model: 'gpt-4o-mini', days: 1, calls: 2, truncated: false },
      ...{ present_cost: 0.0015, new_cost: 0.0045, dearer_calls: 2 },
    },
  ]);
  expect(await db('model_prices').count()).toEqual(prices);
  expect((await preview({ ...price, input_per_1m: 0, output_per_1m: 0 })).status).toBe(422);
  expect((await preview({ ...price, days: 32 })).status).toBe(422);
  expect((await preview({ ...price, model: 'unknown' })).body).toMatchObject({ calls: 0 });
});
