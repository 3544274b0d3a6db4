import { setTimeout as sleep } from 'node:timers/promises';
import { many } from '../../domain/sql';
import { listen } from '../../runtime/listen';
import { createReceiver, createReceiverServer } from '../../sandbox/notices/receiver';
import { makeTenant } from '../support/api';
import { gatewayToken } from '../support/keys';
import { makePrice } from '../support/ledger';
import { openPaymentProcesses } from '../support/payments/processes';
import { until } from '../support/until';
import { burst } from './world';

const TICKETS = 1_000;
const ORGANIZATIONS = 4;
/** How long the destination is down after the burst; NOTICE_OUTAGE_S=300 tries five minutes. */
const OUTAGE_MS = Number(process.env.NOTICE_OUTAGE_S ?? 0) * 1_000;

test(
  'of 1,000 tickets in a burst none is lost, though the destination is down and the worker is killed twice',
  async () => {
    const world = await openPaymentProcesses({ NOTICE_NETWORKS: '127.0.0.0/8' });
    const receiver = createReceiver();
    const server = createReceiverServer(receiver);
    const url = `http://127.0.0.1:${await listen(server, 0)}/hooks/all`;
    await makePrice(world.db);
    const machine = await gatewayToken(world.db);
    const tenants = await Promise.all(
      Array.from({ length: ORGANIZATIONS }, () => makeTenant(world.db)),
    );
    for (const { owner_key: key } of tenants) {
      const body = { name: 'N', channel: 'webhook', url, kinds: ['ticket_created'] };
      const made = await world.call('post', '/v1/notice-destinations', { key, body });
      expect(made.status).toBe(201);
    }
    receiver.addFault({ answer: 'error', status: 503, times: 0 });
    const bursting = Promise.all(
      tenants.map(({ org_id }) =>
        burst({ call: world.call, machine }, org_id, TICKETS / ORGANIZATIONS),
      ),
    );
    for (let kill = 0; kill < 2; kill += 1) {
      await sleep(1_000);
      await world.worker.kill();
      await world.worker.start();
    }
    const ids = (await bursting).flat();
    // Some have failed by now.
    await until(async () => {
      const rows = await many(world.db, 'select 1 from notice_messages where last_status = 503');
      return rows.length > 0;
    });
    await sleep(OUTAGE_MS);
    receiver.clearFaults();
    const counted = () => {
      const messages = new Map(
        receiver.arrivals.map(({ headers, body }) => [headers['webhook-id'], body.data.count]),
      );
      return [...messages.values()].reduce((sum, count) => sum + count, 0);
    };
    await until(() => counted() >= TICKETS, 300_000);
    expect(counted()).toBe(TICKETS);
    const told = await many<{ cost_ticket_id: string }>(
      world.db,
      'select n.cost_ticket_id from notices n join notice_messages m on m.id = n.message_id',
    );
    expect(told.map((one) => one.cost_ticket_id).sort()).toEqual(ids.sort());
    server.closeAllConnections();
    server.close();
    await world.close();
  },
  900_000 + OUTAGE_MS,
);
