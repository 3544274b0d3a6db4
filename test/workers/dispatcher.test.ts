import { many } from '../../domain/sql';
import { createLog } from '../../runtime/log';
import { openDispatcher } from '../../workers/dispatcher';
import { makeTenant } from '../support/api';
import { leastOf } from '../support/cpu';
import { makeShort, openTicketWorld, type TicketWorld } from '../support/tickets';
import { until } from '../support/until';

let world: TicketWorld;
let dispatcher: ReturnType<typeof openDispatcher>;

beforeAll(async () => {
  world = await openTicketWorld();
  const { db, client } = world;
  const database_url: string = db.client.config.connection.connectionString;
  dispatcher = openDispatcher({ db, database_url, client, log: createLog('test', 'fatal') });
});

afterAll(async () => {
  await dispatcher.close();
  await world.close();
});

// As many as an organization may have open.
const BURST = 500;
const CALLERS = 16;

test("all the tickets that one organization may have open do not keep another organization's ticket waiting for its workflow", async () => {
  const { db, client } = world;
  const noisy = await makeTenant(db);
  const quiet = await makeTenant(db);
  let opened = 0;
  const caller = async () => {
    while (opened < BURST) {
      opened += 1;
      await makeShort(world, 10, {}, noisy);
    }
  };
  const started_at = performance.now();
  const burst = Promise.all(Array.from({ length: CALLERS }, caller));
  await until(() => opened > BURST / 4);

  const waits: number[] = [];
  for (let n = 0; n < 5; n += 1) {
    const asked_at = performance.now();
    const { ticket_id } = await makeShort(world, 10, {}, quiet);
    const isStarted = () =>
      client.workflow
        .getHandle(ticket_id)
        .describe()
        .then(
          () => true,
          () => false,
        );
    await until(isStarted, 30_000);
    waits.push(performance.now() - asked_at);
  }
  await burst;
  expect(performance.now() - started_at).toBeLessThan(40_000);
  expect(waits.sort((a, b) => a - b)[2]).toBeLessThan(5_000);
  const [row] = await many<{ parked: number }>(
    db,
    'select count(*)::int as parked from outbox where parked_at is not null',
  );
  expect(row?.parked).toBe(0);
});

test('a message that was not taken goes again once it is due, and one that comes meanwhile goes at once', async () => {
  const { db, client } = world;
  const tenant = await makeTenant(db);
  const isStarted = (id: string) =>
    client.workflow
      .getHandle(id)
      .describe()
      .then(
        () => true,
        () => false,
      );
  const { ticket_id } = await makeShort(world, 10, {}, tenant);
  await until(() => isStarted(ticket_id));
  const took_ms = await leastOf(4, 3_000, async () => {
    // As a try that failed leaves it: no notice says when its pause is over.
    const [late] = await many<{ id: bigint }>(
      db,
      `insert into outbox (org_id, workflow, workflow_id, input, attempts, next_at)
       values (:org_id, 'costTicket', :ticket_id, jsonb_build_object('ticket_id', :ticket_id::text), 1,
         clock_timestamp() + interval '700 milliseconds')
       returning id`,
      { org_id: tenant.org_id, ticket_id },
    );
    const other = await makeShort(world, 10, {}, tenant);
    const since = performance.now();
    await until(() => isStarted(other.ticket_id));
    const isGone = async () =>
      (await many(db, 'select 1 from outbox where id = :id', { id: late?.id })).length === 0;
    await until(isGone);
    return performance.now() - since;
  });
  // Well before the next sweep.
  expect(took_ms).toBeLessThan(3_000);
});
