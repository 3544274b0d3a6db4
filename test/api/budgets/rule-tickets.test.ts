import { type CallApi, makeTenant, startApi, type TestApi } from '../../support/api';
import { gatewayToken } from '../../support/keys';
import { makePrice, reserveBody } from '../../support/ledger';

let world: TestApi;
let call: CallApi;
let machine: string;

beforeAll(async () => {
  world = await startApi();
  ({ call } = world);
  machine = await gatewayToken(world.db);
  await makePrice(world.db);
});

afterAll(() => world.close());

test('a ticket that a rule has decided says so, and which rule, in the list and by itself', async () => {
  const { api, tenant } = await makeRuled();
  const { body: rule } = await api('post', '/v1/approval-rules', {
    ...{ name: 'Small calls', max_per_call: 1, max_per_day: 5 },
  });
  const body = reserveBody(tenant.org_id, 10);
  const held = await call('post', '/v1/gateway/wallets/reserve', { key: machine, body });
  expect(held.status).toBe(200);
  const { tickets } = (await api('get', '/v1/cost-tickets')).body;
  const decided = {
    ...{ status: 'redeemed', decided_by: 'rule', approval_rule_id: rule.id },
    ...{ reservation_id: held.body.reservation_id, request_id: body.request_id },
  };
  expect(tickets).toMatchObject([decided]);
  expect((await api('get', `/v1/cost-tickets/${tickets[0].id}`)).body).toMatchObject(decided);
});

test('a ticket that no rule has decided names none', async () => {
  const { api, tenant } = await makeRuled();
  const body = reserveBody(tenant.org_id, 10);
  const refused = await call('post', '/v1/gateway/wallets/reserve', { key: machine, body });
  expect(refused.status).toBe(402);
  const [ticket] = (await api('get', '/v1/cost-tickets')).body.tickets;
  expect(ticket).toMatchObject({ status: 'open', decided_by: null });
  expect(ticket).not.toHaveProperty('approval_rule_id');
});

/** A tenant with money, and with a budget of nothing that asks. */
async function makeRuled() {
  const tenant = await makeTenant(world.db);
  const api = async (method: string, path: string, body?: object) => {
    const answer = await call(method, path, { key: tenant.owner_key, ...(body ? { body } : {}) });
    expect([path, answer.status < 300]).toEqual([path, true]);
    return answer;
  };
  await api('post', '/v1/wallets/credit', {
    ...{ target_wallet_owner_type: 'organization', amount: 10 },
  });
  await api('post', '/v1/budgets', {
    ...{ owner_type: 'organization', limit: 0, window: 'month', on_exceed: 'ticket' },
  });
  return { api, tenant };
}
