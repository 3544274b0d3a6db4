import { refusal, type Tenant } from '../../support/api';
import { platformKey } from '../../support/keys';
import { balance, TOKEN } from '../../support/ledger';
import {
  approve,
  makeShort,
  openTicketWorld,
  redeem,
  show,
  type TicketWorld,
} from '../../support/tickets';
import { until } from '../../support/until';

let world: TicketWorld;
let platform: string;

beforeAll(async () => {
  world = await openTicketWorld();
  platform = await platformKey(world.db);
});

afterAll(() => world.close());

const suspended = { status: 403, code: 'organization_suspended' };

const suspend = ({ org_id }: Tenant, verb = 'suspend') =>
  world.call('post', `/v1/admin/organizations/${org_id}/${verb}`, { key: platform, body: {} });

/** Whether PostgreSQL has notified the APIs of an organization's waiting calls since now. */
async function listen(org_id: string) {
  const { client } = world.db;
  const connection = await client.acquireConnection();
  let is_noticed = false;
  const hear = ({ payload }: { payload?: string }) => {
    is_noticed ||= payload === org_id;
  };
  connection.on('notification', hear);
  await connection.query('listen tickets');
  return {
    noticed: () => is_noticed,
    stop: async () => {
      await connection.query('unlisten tickets');
      connection.off('notification', hear);
      await client.releaseConnection(connection);
    },
  };
}

test('a call that waits is told at once that its organization was suspended', async () => {
  const { call, other, machine } = world;
  const short = await makeShort(world, 10);
  const waiting = redeem(other, machine, short, { wait_ms: 30_000 });
  await until(async () => (await show(call, short)).waiting_calls === 1);
  const { noticed, stop } = await listen(short.org_id);
  await suspend(short);
  await until(noticed);
  expect(refusal(await waiting)).toMatchObject(suspended);
  await stop();
});

test('what was approved before a suspension is held for its call, and given to it only afterwards', async () => {
  const { call, db, machine } = world;
  const short = await makeShort(world, 10);
  await approve(call, short);
  await suspend(short);
  for (const wait_ms of [0, 200])
    expect(refusal(await redeem(call, machine, short, { wait_ms }))).toMatchObject(suspended);
  expect(await balance(db, short.wallet_id)).toMatchObject({ reserved_nanos: 10n * TOKEN });
  await suspend(short, 'unsuspend');
  expect(await redeem(call, machine, short)).toMatchObject({
    ...{ status: 200, body: { reserved_amount: 0.00001 } },
  });
});
