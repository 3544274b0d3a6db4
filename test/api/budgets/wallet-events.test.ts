import { many } from '../../../domain/sql';
import { makePerson, makeTenant, startApi, type TestApi } from '../../support/api';
import { until } from '../../support/until';
import { follow } from '../routes/following';

let api: TestApi;

beforeAll(async () => {
  api = await startApi();
});

afterAll(() => api.close());

test('what a person puts into a wallet or moves is an event at once, for those whose wallets it changed', async () => {
  const tenant = await makeTenant(api.db);
  const { org_id, team_id, billing_key, member_key } = tenant;
  const ann = await makePerson(api, tenant, 'member');
  const leader = await makePerson(api, tenant, 'member');
  await many(
    api.db,
    `insert into team_members (team_id, user_id, role) values (:team_id, :user_id, 'admin')`,
    { team_id, user_id: leader.user_id },
  );
  const keys = [billing_key, ann.key, leader.key, member_key];
  const seen = await Promise.all(keys.map((key) => follow(api.url, key)));
  const move = async (verb: string, body: object) => {
    const answer = await api.call('post', `/v1/wallets/${verb}`, { key: billing_key, body });
    expect(answer.status).toBeLessThan(300);
    return answer.body;
  };
  await move('credit', { target_wallet_owner_type: 'organization', amount: 5 });
  const given = await move('allocate', { user_id: ann.user_id, amount: 2 });
  await move('allocate', { team_id, amount: 1 });
  await move('reclaim', { team_id, amount: 1 });
  const refused = await api.call('post', '/v1/wallets/allocate', {
    key: billing_key,
    body: { team_id, amount: 1_000 },
  });
  expect(refused.status).toBe(409);
  await move('credit', {
    target_wallet_owner_type: 'user',
    target_wallet_owner_id: ann.user_id,
    amount: 3,
  });
  const [all = { types: [] }, own = { types: [] }, led = { types: [] }, other] = seen;
  await until(() => all.types.length >= 5 && own.types.length >= 2 && led.types.length >= 2);
  expect(all.types).toEqual([
    'wallet.credited',
    'wallet.allocated',
    'wallet.allocated',
    'wallet.reclaimed',
    'wallet.credited',
  ]);
  expect(own.types).toEqual(['wallet.allocated', 'wallet.credited']);
  expect(led.types).toEqual(['wallet.allocated', 'wallet.reclaimed']);
  expect(other?.types).toEqual([]);
  const { body } = await api.call('get', '/v1/events?type=wallet.allocated', { key: billing_key });
  expect(body.events.at(-1).payload).toEqual({
    wallet_id: given.to.wallet_id,
    owner_type: 'user',
    from_wallet_id: given.from.wallet_id,
    from_owner_type: 'organization',
    user_id: ann.user_id,
    amount: 2,
    currency: 'USD',
    transaction_id: given.transactions[1].id,
    transfer_id: given.transactions[1].transfer_id,
    actor: given.transactions[1].actor,
  });
  expect(body.events.every((event: { org_id: string }) => event.org_id === org_id)).toBe(true);
  for (const stream of seen) stream.close();
});
