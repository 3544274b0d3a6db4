import { randomUUID } from 'node:crypto';
import { blankPrice } from '../../domain/ledger/pricing';
import { listen } from '../../runtime/listen';
import { createModelServer } from '../../sandbox/models/server';
import { makeDestination, type NoticeWorld, openNoticeWorld, present } from '../notices/world';
import { makePerson, makeTenant } from '../support/api';
import { openTestGateway, post } from '../support/gateway';
import { gatewayToken, makeKey } from '../support/keys';
import { makePrice } from '../support/ledger';
import { until } from '../support/until';

// A call that no wallet covers hangs, a person approves it by the link in a channel, and it is
// answered. Whoever asks later who decided that is told one name, wherever they look.

const MODEL = 'gpt-4o-mini';
let world: NoticeWorld;
let gateway: Awaited<ReturnType<typeof openTestGateway>>;
const models = createModelServer();

beforeAll(async () => {
  process.env.TEST_MODELS_KEY = 'upstream-secret';
  world = await openNoticeWorld();
  await makePrice(world.db, {
    ...{ ...blankPrice, tiers: null, model: MODEL, input_per_1m: 15, output_per_1m: 60 },
  });
  gateway = await openTestGateway({
    api_urls: [world.api_url],
    models_url: `http://127.0.0.1:${await listen(models, 0)}`,
    control_plane_token: await gatewayToken(world.db),
    settings: { cost_tickets: { hold_ms: 300_000 } },
    target: {},
  });
});
afterAll(async () => {
  await gateway.close();
  models.closeAllConnections();
  models.close();
  await world.close();
});

test('a held call is answered when a person approves it by a link, and all records name that person', async () => {
  const tenant = await makeTenant(world.db);
  const { org_id, wallet_id, owner_key: key } = tenant;
  const path = `/slack/${randomUUID()}`;
  await makeDestination(world, key, { channel: 'slack', path });
  const person = await makePerson(world, tenant, 'billing_admin');
  const gateway_key = await makeKey(world.db, org_id, { token_type: 'gateway' });
  const words = { model: MODEL, messages: [{ role: 'user', content: 'Say hello.' }] };
  const held = post(`${gateway.url}/v1/chat/completions`, gateway_key, words);

  const { body: told } = await present(() =>
    world.receiver.arrivals.find((one) => one.path === path),
  );
  const link: string = told.blocks.at(-1).elements[0].url.split('#link=')[1];
  const session = await world.call('post', '/v1/sessions', { body: { access_key: person.key } });
  const page = (await world.call('get', '/approvals')).text;
  const nonce = /name="page-nonce" content="([^"]+)"/.exec(page)?.[1];
  const decided = await world.call('post', '/v1/ticket-links/decide', {
    ...{ key: session.body.key, body: { link, nonce, note: 'for the demo' } },
  });
  expect(decided).toMatchObject({ status: 200, body: { is_first: true } });
  const { status, text } = await held;
  expect([status, text]).toEqual([200, expect.stringContaining('"choices"')]);

  const ticket_id = decided.body.ticket.id;
  const read = async (route: string) => (await world.call('get', route, { key })).body;
  expect(await read(`/v1/cost-tickets/${ticket_id}`)).toMatchObject({
    ...{ status: 'redeemed', decided_by: person.user_id, note: 'for the demo' },
  });
  // A settlement follows its answer.
  const entries = async () => (await read(`/v1/wallets/${wallet_id}/transactions`)).transactions;
  await until(async () => (await entries()).length === 3);
  const types = (await entries()).map(({ type }: { type: string }) => type);
  expect(types).toEqual(['settlement', 'reservation', 'credit']);
  const approvals = (await entries()).map(({ approval }: { approval?: object }) => approval);
  expect(approvals.filter(Boolean)).toEqual([
    { cost_ticket_id: ticket_id, decided_by: person.user_id, approval_rule_id: null },
  ]);
  const log = (await read(`/v1/audit-log?object_id=${ticket_id}`)).audit_log;
  expect(log).toMatchObject([
    {
      ...{ action: 'cost_ticket.approved', actor: { type: 'user', id: person.user_id } },
      after: { status: 'approved', note: 'for the demo' },
    },
  ]);
  const { notices } = await read(`/v1/notices?cost_ticket_id=${ticket_id}`);
  const who = notices.map((one: Record<string, unknown>) => [one.kind, one.decided_by]);
  expect(who).toEqual([
    ['ticket_resolved', person.user_id],
    ['ticket_resolved', person.user_id],
    ['ticket_created', null],
  ]);
});
