import { randomUUID } from 'node:crypto';
import { tellExpiringKeys } from '../../domain/notices/messages';
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
  for (let n = 0; n < 13; n += 1) people.push((await makePerson(world, tenant, 'member')).user_id);
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

/** A key of a tenant that was made a month ago and ends in so many hours. */
async function keyThatEnds({ org_id, owner_key: key }: Tenant, hours: number): Promise<void> {
  const body = { name: randomUUID(), token_type: 'gateway' };
  expect((await world.call('post', '/v1/tokens', { key, body })).status).toBe(201);
  await many(
    world.db,
    `update tokens set created_at = clock_timestamp() - interval '30 days',
       expires_at = clock_timestamp() + :hours * interval '1 hour' where org_id = :org_id and name = :name`,
    { hours, org_id, name: body.name },
  );
}

test('keys that end are told of an organization at a time: one that is locked holds no other up', async () => {
  const [first, second] = [await makeTenant(world.db), await makeTenant(world.db)];
  await keyThatEnds(first, 1);
  await keyThatEnds(second, 2);
  const toldOf = async ({ org_id }: Tenant) =>
    (
      await many(
        world.db,
        `select 1 from events where org_id = :org_id and type = 'key.expiring'`,
        {
          org_id,
        },
      )
    ).length;
  let telling: Promise<number> | undefined;
  await world.db.transaction(async (trx) => {
    await many(trx, 'select from lock_organization(:org_id)', { org_id: second.org_id });
    telling = tellExpiringKeys(world.db);
    await until(async () => (await toldOf(first)) === 1);
    expect(await toldOf(second)).toBe(0);
  });
  expect(await telling).toBe(2);
  expect(await toldOf(second)).toBe(1);
  expect(await tellExpiringKeys(world.db)).toBe(0);
});

test('the key of a person who is gone is told to nobody', async () => {
  const tenant = await makeTenant(world.db);
  const { org_id } = tenant;
  await keyThatEnds(tenant, 1);
  await many(
    world.db,
    `with gone as (update memberships set archived_at = clock_timestamp() where org_id = :org_id and user_id = :user_id)
     update tokens set user_id = :user_id where org_id = :org_id and expires_at < clock_timestamp() + interval '1 day'`,
    { org_id, user_id: tenant.member_id },
  );
  expect(await tellExpiringKeys(world.db)).toBe(0);
});
