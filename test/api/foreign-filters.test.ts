import { type Db, many, one } from '../../domain/sql';
import { type CallApi, makeTenant, refusal, startApi, type Tenant } from '../support/api';
import { platformKey } from '../support/keys';

let db: Db;
let call: CallApi;
let close: () => Promise<void>;
let own: Tenant;
let other: Tenant;
let platform: string;

beforeAll(async () => {
  ({ db, call, close } = await startApi());
  [own, other] = [await makeTenant(db), await makeTenant(db)];
  platform = await platformKey(db);
});

afterAll(() => close());

/** A ticket of an organization, and a notice of it that left in a message. */
async function addNotice({ org_id, member_id: user_id, team_id }: Tenant) {
  const { id: cost_ticket_id } = await one<{ id: string }>(
    db,
    `insert into cost_tickets (org_id, user_id, team_id, provider, model, request_body_hash, estimated_cost_nanos, currency, reserve,
       expires_at, status)
     values (:org_id, :user_id, :team_id, 'openai', 'gpt-4o', md5('x'), 1000, 'USD',
       jsonb_build_object('request_body_hash', 'sha256:x', 'family', 'chat_completions', 'request_id', '1'), clock_timestamp(), 'expired')
     returning id`,
    { org_id, user_id, team_id },
  );
  const { id: destination_id } = await one<{ id: string }>(
    db,
    `insert into notice_destinations (org_id, name, channel, url, host, kinds, created_by)
     values (:org_id, 'Hook', 'webhook', 'https://example.com', 'example.com', '{ticket_created}', 'test') returning id`,
    { org_id },
  );
  const { id: message_id } = await one<{ id: string }>(
    db,
    `insert into notice_messages (destination_id, kind, notice_count, status)
     values (:destination_id, 'ticket_created', 1, 'delivered') returning id`,
    { destination_id },
  );
  await many(
    db,
    `insert into notices (destination_id, org_id, kind, cost_ticket_id, payload, message_id)
     values (:destination_id, :org_id, 'ticket_created', :cost_ticket_id, '{}', :message_id)`,
    { destination_id, org_id, cost_ticket_id, message_id },
  );
  return { destination_id, message_id, cost_ticket_id };
}

/** The filters by ids of each list, with what of a tenant such an id is. */
async function filtersOf(tenant: Tenant): Promise<Record<string, Record<string, string>>> {
  const { destination_id, message_id, cost_ticket_id } = await addNotice(tenant);
  const { member_id: user_id, team_id, agent_id } = tenant;
  return {
    [`/v1/wallets/${own.wallet_id}/transactions`]: { user_id },
    '/v1/cost-tickets': { user_id, team_id, agent_id },
    '/v1/tokens': { user_id, team_id, agent_id },
    '/v1/notice-messages': { destination_id },
    '/v1/notices': { destination_id, message_id, cost_ticket_id },
  };
}

test('an id of elsewhere, or of nothing, is 404 in every filter; one of the organization filters', async () => {
  const mine = await filtersOf(own);
  const theirs = await filtersOf(other);
  for (const [path, filters] of Object.entries(mine))
    for (const [param, id] of Object.entries(filters))
      for (const more of ['', '&cursor=first']) {
        const ask = (value: string | undefined) =>
          call('get', `${path}?${param}=${value}${more}`, { key: own.owner_key });
        expect([path, param, (await ask(id)).status]).toEqual([path, param, 200]);
        for (const wrong of [theirs[path]?.[param], `${param}_of_nobody`])
          expect([path, refusal(await ask(wrong))]).toEqual([
            path,
            { status: 404, code: 'not_found', param },
          ]);
      }
});

test('what is removed is known to the filters of what it left behind', async () => {
  const { destination_id, message_id } = await addNotice(own);
  const as = { key: own.owner_key };
  const removed = await call('delete', `/v1/notice-destinations/${destination_id}`, as);
  expect(removed.status).toBe(200);
  const log = await call('get', `/v1/notice-messages?destination_id=${destination_id}`, as);
  expect(log.body.messages).toMatchObject([{ id: message_id }]);
  const members = `/v1/organizations/${own.org_id}/members`;
  const { user_id } = (await call('post', members, { ...as, body: { name: 'Gone' } })).body;
  expect((await call('delete', `${members}/${user_id}`, as)).status).toBe(200);
  const ledger = `/v1/wallets/${own.wallet_id}/transactions?user_id=${user_id}`;
  expect(await call('get', ledger, as)).toMatchObject({ status: 200, body: { transactions: [] } });
});

test("a team of elsewhere is 404 among one's own keys", async () => {
  const ask = (team_id: string) =>
    call('get', `/v1/me/keys?team_id=${team_id}`, { key: own.member_key });
  expect((await ask(own.team_id)).status).toBe(200);
  for (const team_id of [other.team_id, 'team_of_nobody'])
    expect(refusal(await ask(team_id))).toMatchObject({ status: 404, param: 'team_id' });
});

test('an operator is told of ids that nobody has, or not the organization that they name', async () => {
  const mine = `org_id=${own.org_id}`;
  const ask = (path: string) => call('get', path, { key: platform });
  for (const path of [
    `/v1/admin/wallets?team_id=${own.team_id}`,
    `/v1/admin/wallets?${mine}&user_id=${own.member_id}`,
    `/v1/admin/payments?${mine}`,
    `/v1/admin/exports?${mine}`,
    `/v1/admin/settlement-excess?${mine}`,
  ])
    expect([path, (await ask(path)).status]).toEqual([path, 200]);
  for (const [path, param] of [
    ['/v1/admin/wallets?team_id=team_of_nobody', 'team_id'],
    [`/v1/admin/wallets?${mine}&team_id=${other.team_id}`, 'team_id'],
    [`/v1/admin/wallets?${mine}&user_id=${other.member_id}`, 'user_id'],
    [`/v1/admin/wallets?${mine}&member_of=${other.team_id}`, 'member_of'],
  ] as const)
    expect([path, refusal(await ask(path))]).toEqual([
      path,
      { status: 404, code: 'not_found', param },
    ]);
  for (const list of ['wallets', 'payments', 'exports', 'settlement-excess'])
    expect([list, (await ask(`/v1/admin/${list}?org_id=org_of_nobody`)).status]).toEqual([
      list,
      404,
    ]);
});

test('the platform looks at the notices of an organization that it names, and else at its own', async () => {
  const { destination_id } = await addNotice(other);
  const list = (query: string) =>
    call('get', `/v1/notices?destination_id=${destination_id}${query}`, { key: platform });
  expect((await list(`&org_id=${other.org_id}`)).body.notices).toHaveLength(1);
  for (const query of ['', `&org_id=${own.org_id}`])
    expect(refusal(await list(query))).toMatchObject({ status: 404, param: 'destination_id' });
});
