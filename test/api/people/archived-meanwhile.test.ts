import { type Db, many } from '../../../domain/sql';
import { createNetworks } from '../../../runtime/networks';
import { type Answer, type CallApi, makeTenant, refusal, startApi } from '../../support/api';
import { locksAwaited } from '../../support/database';
import { platformKey } from '../../support/keys';
import { makePrice } from '../../support/ledger';
import { until } from '../../support/until';

// What a platform admin makes in an organization, by its id, while somebody archives it.

let db: Db;
let call: CallApi;
let close: () => Promise<void>;
let platform: string;

beforeAll(async () => {
  ({ db, call, close } = await startApi({
    notice_reach: { networks: createNetworks([]), chat_hosts: [], has_mail: true },
  }));
  platform = await platformKey(db);
  await makePrice(db);
});

afterAll(() => close());

type Named = Awaited<ReturnType<typeof makeTenant>> & { agent_id: string };

const organization = ({ org_id }: Named) => ({ owner_type: 'organization', owner_id: org_id });

const made: [string, (of: Named) => string, (of: Named) => object][] = [
  ['a key', () => '/v1/tokens', () => ({ name: 'k', token_type: 'gateway' })],
  ['a team', ({ org_id }) => `/v1/organizations/${org_id}/teams`, () => ({ name: 'T' })],
  ['an agent', ({ org_id }) => `/v1/organizations/${org_id}/agents`, () => ({ name: 'A' })],
  [
    'a member',
    ({ org_id }) => `/v1/organizations/${org_id}/members`,
    () => ({ name: 'M', role: 'member' }),
  ],
  [
    'a credit',
    () => '/v1/admin/wallets/credit',
    () => ({ target_wallet_owner_type: 'organization', amount: 1 }),
  ],
  ['a budget', () => '/v1/budgets', (of) => ({ ...organization(of), limit: 1, window: 'day' })],
  [
    'a rule',
    () => '/v1/approval-rules',
    () => ({ name: 'R', max_per_call: 1, max_per_day: 1, source: 'organization' }),
  ],
  [
    'a cap',
    ({ agent_id }) => `/v1/agents/${agent_id}/usage-constraints`,
    () => ({
      ...{ constraint_type: 'cost', provider: 'openai', model_pattern: '*', max_value: 1 },
      ...{ interval: 'month', enforcement_mode: 'warn' },
    }),
  ],
  ['a destination', () => '/v1/notice-destinations', () => ({ name: 'N', channel: 'email' })],
  [
    'a schedule',
    () => '/v1/export-schedules',
    () => ({ kinds: ['ledger'], every: 'month', format: 'csv' }),
  ],
  ['an own key', () => '/v1/provider-keys', () => ({ provider: 'openai', key: 'sk-1234567890ab' })],
  [
    'an identity provider',
    () => '/v1/admin/issuers',
    () => ({
      ...{ name: 'I', client_id: 'c', subject: 'bound' },
      ...{ issuer: 'https://a.example', jwks_url: 'https://a.example/jwks' },
    }),
  ],
];

test.each(made)('%s is 404 once the end has come before it', async (_, pathOf, bodyOf) => {
  const tenant = await makeTenant(db);
  const { org_id } = tenant;
  const [agent] = await db('agents').insert({ org_id, name: 'Bot' }).returning('id');
  const of = { ...tenant, agent_id: agent.id };
  const path = pathOf(of);
  const body = {
    ...bodyOf(of),
    ...(path.includes(org_id) || path.includes(agent.id) ? {} : { org_id }),
  };
  let answered: Answer | undefined;
  let asked: Promise<void> = Promise.resolve();
  await db.transaction(async (trx) => {
    await many(trx, 'select archive_organization(:org_id)', { org_id });
    asked = call('post', path, { key: platform, body }).then((answer) => {
      answered = answer;
    });
    await until(async () => answered !== undefined || (await locksAwaited(db)) > 0);
  });
  await asked;
  expect(refusal(answered as Answer)).toMatchObject({ status: 404, code: 'not_found' });
});
