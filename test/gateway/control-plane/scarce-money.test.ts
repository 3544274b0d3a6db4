import { openControlPlane } from '../../../gateway/control-plane/client';
import { createLog } from '../../../runtime/log';
import { chat, gatewayKey, openWorld, post, type World } from '../../support/gateway';
import { gatewayToken } from '../../support/keys';
import { credit, makeFundedOrg, makeOrg, reserveBody, settleBody } from '../../support/ledger';
import { until } from '../../support/until';

let world: World;

beforeAll(async () => {
  world = await openWorld();
});

afterAll(() => world.close());

test('a call that leaves no room for another one settles at once, so that any gateway serves the next', async () => {
  const { db } = world.api;
  const { gateway, url } = await world.openGateway();
  const patience: unknown[] = [];
  const { settle } = gateway.control_plane;
  gateway.control_plane.settle = (settlement, held, is_patient) => {
    patience.push(is_patient);
    settle(settlement, held, is_patient);
  };
  const callOf = async (nanos: bigint) => {
    const { org_id, org_wallet } = await makeOrg(db);
    await credit(db, org_id, org_wallet, nanos);
    const key = await gatewayKey(world.api, org_id);
    const before = patience.length;
    expect((await post(`${url}/v1/chat/completions`, key, chat('Hello'))).status).toBe(200);
    await until(async () => patience.length > before && gateway.control_plane.unsettled() === 0);
    return db('reservations').where({ org_id }).first();
  };
  const { held_nanos } = await callOf(1_000_000_000n);
  await callOf(held_nanos);
  await callOf(2n * held_nanos);
  expect(patience).toEqual([true, false, true]);
});

test('a settlement that is not patient overtakes one that is', async () => {
  const { db, url } = world.api;
  const options = { urls: [url], token: await gatewayToken(db) };
  const [quiet, poor] = [1, 2].map(() => openControlPlane(options, createLog('test', 'silent')));
  if (!quiet || !poor) throw new Error('Two were opened.');
  const { org_id } = await makeFundedOrg(db, 1_000_000);
  const reserve = () => reserveBody(org_id, 8, { model: 'gpt-4o-mini' });
  const holds = [await quiet.reserve(reserve()), await poor.reserve(reserve())];
  const [first = '', second = ''] = holds.map(({ reservation_id }) => reservation_id);
  quiet.settle(settleBody(org_id, first, 1));
  poor.settle(settleBody(org_id, second, 1), undefined, false);
  await until(async () => quiet.unsettled() + poor.unsettled() === 0);
  const closed = await db('reservations').whereIn('id', [first, second]).orderBy('closed_at');
  expect(closed.map(({ id }) => id)).toEqual([second, first]);
  await Promise.all([quiet.close(), poor.close()]);
});
