import { chat, gatewayKey, openWorld, post, type World } from '../../support/gateway';
import { platformKey } from '../../support/keys';
import { credit, makeOrg } from '../../support/ledger';

let world: World;

beforeAll(async () => {
  world = await openWorld();
});
afterAll(() => world.close());

test('a key of a suspended organization is refused by name at the gateway, and works again afterwards', async () => {
  const { api, url } = world;
  const { org_id, org_wallet } = await makeOrg(api.db);
  await credit(api.db, org_id, org_wallet, 10_000_000_000n);
  const [known, unseen] = [await gatewayKey(api, org_id), await gatewayKey(api, org_id)];
  const ask = async (key: string) => {
    const { status, text } = await post(`${url}/v1/chat/completions`, key, chat('hi'));
    return [status, status < 400 ? undefined : JSON.parse(text).error.code];
  };
  expect(await ask(known)).toEqual([200, undefined]);
  const admin = { key: await platformKey(api.db), body: {} };
  await api.call('post', `/v1/admin/organizations/${org_id}/suspend`, admin);
  // One that the gateway remembers, and one that it has never seen.
  expect(await ask(known)).toEqual([403, 'organization_suspended']);
  expect(await ask(unseen)).toEqual([403, 'organization_suspended']);
  await api.call('post', `/v1/admin/organizations/${org_id}/unsuspend`, admin);
  expect([await ask(known), await ask(unseen)]).toEqual([
    [200, undefined],
    [200, undefined],
  ]);
});
