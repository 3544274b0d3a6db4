import {
  chat,
  gatewayKey,
  lastCharge,
  openHolds,
  openWorld,
  post,
  type World,
} from '../../support/gateway';
import { balance, credit, inFlight, makeOrg } from '../../support/ledger';
import { until } from '../../support/until';
import { openWire } from '../../support/wire';

const path = '/v1/chat/completions';
let world: World;

beforeAll(async () => {
  world = await openWorld();
});

afterAll(() => world.close());

test('200 parallel calls on a wallet that covers 20: exactly 20 are answered, 180 get a ticket, the balance is exact', async () => {
  const { db } = world.api;
  // Nothing is settled, and so given back, before the last call has asked.
  const models = await openWire(world.models_url);
  const { url, close } = await world.openGateway({ target: { base_url: `${models.url}/v1` } });
  models.keepAfter('');
  const body = chat('Say hello.');
  const probe = await makeOrg(db);
  await credit(db, probe.org_id, probe.org_wallet, 1_000_000_000n);
  const probing = post(url + path, await gatewayKey(world.api, probe.org_id), body);
  await until(async () => (await openHolds(world.api, probe.org_id)) === 1);
  const held = 1_000_000_000n - (await balance(db, probe.org_wallet)).balance_nanos;
  const org = await makeOrg(db);
  await credit(db, org.org_id, org.org_wallet, 20n * held);
  const key = await gatewayKey(world.api, org.org_id);
  let decided = 0;
  const calls = Array.from({ length: 200 }, () => async () => {
    const answer = await post(url + path, key, body);
    decided += 1;
    return answer;
  });
  const answering = inFlight(200, calls);
  // Those that are held are asked for, and the others refused.
  await until(async () => decided + (await openHolds(world.api, org.org_id)) === 200, 120_000);
  models.release();
  const answers = await answering;
  expect(answers.filter(({ status }) => status === 200)).toHaveLength(20);
  const refused = answers.filter(({ status }) => status === 402);
  expect(refused).toHaveLength(180);
  const tickets = new Set(refused.map(({ text }) => JSON.parse(text).error.cost_ticket.id));
  expect(tickets.size).toBe(1);
  const { actual_cost_nanos } = await lastCharge(world, org.org_id);
  expect(await balance(db, org.org_wallet)).toEqual({
    balance_nanos: 20n * (held - actual_cost_nanos),
    reserved_nanos: 0n,
  });
  await probing;
  await close();
  await models.close();
});
