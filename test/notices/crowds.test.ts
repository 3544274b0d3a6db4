import { randomUUID } from 'node:crypto';
import { many, one } from '../../domain/sql';
import { makePerson, makeTenant, type Tenant } from '../support/api';
import { platformKey } from '../support/keys';
import { credit, TOKEN } from '../support/ledger';
import { until } from '../support/until';
import { makeDestination, type NoticeWorld, openNoticeWorld, present } from './world';

// Notices that come in crowds: what one change is to many wallets or keys.

let world: NoticeWorld;
let platform: string;
beforeAll(async () => {
  world = await openNoticeWorld();
  platform = await platformKey(world.db);
});
afterAll(() => world.close());

/** The wallet of a person, with so many tokens. */
async function walletOf({ org_id }: Tenant, user_id: string, tokens: bigint): Promise<string> {
  const { id } = await one<{ id: string }>(
    world.db,
    `select (ensure_wallet(:org_id, 'user', :user_id)).id as id`,
    { org_id, user_id },
  );
  if (tokens > 0n) await credit(world.db, org_id, id, tokens * TOKEN);
  return id;
}

test('a threshold for all wallets is one message, of those alone that have had money and an owner who is there', async () => {
  const tenant = await makeTenant(world.db);
  const { org_id, wallet_id } = tenant;
  const path = `/hooks/${randomUUID()}`;
  const kinds = ['balance_low'];
  const to = await makeDestination(world, tenant.owner_key, { channel: 'webhook', path, kinds });
  const people: string[] = [];
  for (let n = 0; n < 13; n += 1)
    people.push((await makePerson(world, tenant, 'member')).user_id);
  const [empty = '', gone = '', ...others] = people;
  await walletOf(tenant, empty, 0n);
  await walletOf(tenant, gone, 1n);
  const wallets = [wallet_id];
  for (const user_id of others) wallets.push(await walletOf(tenant, user_id, 1n));
  await many(
    world.db,
    `update memberships set archived_at = clock_timestamp() where org_id = :org_id and user_id = :gone`,
    { org_id, gone },
  );
  const settings = `/v1/admin/organizations/${org_id}/wallet-settings`;
  const body = { low_balance_threshold: 9 };
  expect((await world.call('put', settings, { key: platform, body })).status).toBe(200);

  const arrival = await present(() => world.receiver.arrivals.find((one) => one.path === path));
  expect(arrival.body).toMatchObject({ type: 'balance_low', data: { count: 12 } });
  const told = arrival.body.data.notices.map(
    (one: { details: { wallet_id: string } }) => one.details.wallet_id,
  );
  expect(told.sort()).toEqual(wallets.sort());
  const log = `/v1/notice-messages?destination_id=${to.id}`;
  await until(async () => {
    const { messages } = (await world.call('get', log, { key: tenant.owner_key })).body;
    return messages.length === 1 && messages[0].status === 'delivered';
  });
});

test('a threshold of one wallet tells of it, though it never had money', async () => {
  const tenant = await makeTenant(world.db);
  const path = `/hooks/${randomUUID()}`;
  const kinds = ['balance_low'];
  await makeDestination(world, tenant.owner_key, { channel: 'webhook', path, kinds });
  const { user_id } = await makePerson(world, tenant, 'member');
  const id = await walletOf(tenant, user_id, 0n);
  const body = { low_balance_threshold: 5 };
  const changed = await world.call('put', `/v1/wallets/${id}`, { key: tenant.owner_key, body });
  expect(changed.status).toBe(200);
  const arrival = await present(() => world.receiver.arrivals.find((one) => one.path === path));
  expect(arrival.body.data).toMatchObject({ count: 1, notices: [{ details: { wallet_id: id } }] });
});
