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
  dispatcher = open();
});

afterAll(async () => {
  await dispatcher.close();
  await world.close();
});

function open() {
  const { db, client } = world;
  const database_url: string = db.client.config.connection.connectionString;
  return openDispatcher({ db, database_url, client, log: createLog('test', 'fatal') });
}

/** True if a ticket has its workflow. */
function isStarted(ticket_id: string): Promise<boolean> {
  return world.client.workflow
    .getHandle(ticket_id)
    .describe()
    .then(
      () => true,
      () => false,
    );
}

test('a message that was not taken goes again once it is due, and one that comes meanwhile goes at once', async () => {
  const { db } = world;
  const tenant = await makeTenant(db);
  const { ticket_id } = await makeShort(world, 10, {}, tenant);
  await until(() => isStarted(ticket_id));
  const late_ms = await leastOf(4, 3_000, async () => {
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
    const at_once_ms = performance.now() - since;
    const isGone = async () =>
      (await many(db, 'select 1 from outbox where id = :id', { id: late?.id })).length === 0;
    await until(isGone);
    // What goes at once shows how long a message takes here.
    return performance.now() - since - 3 * at_once_ms;
  });
  // Well before the next sweep.
  expect(late_ms).toBeLessThan(3_000);
});

// As many as an organization may have open.
const BURST = 500;
const CALLERS = 16;

test("all the tickets that one organization may have open do not keep another organization's ticket waiting for its workflow", async () => {
  const { db } = world;
  const noisy = await makeTenant(db);
  const quiet = await makeTenant(db);
  await dispatcher.close();
  let opened = 0;
  const caller = async () => {
    while (opened < BURST) {
      opened += 1;
      await makeShort(world, 10, {}, noisy);
    }
  };
  const burst = Promise.all(Array.from({ length: CALLERS }, caller));
  await until(() => opened > BURST / 2);
  const [last] = await db('outbox').where({ org_id: noisy.org_id }).max('id as id');
  dispatcher = open();
  for (let n = 0; n < 3; n += 1) {
    const { ticket_id } = await makeShort(world, 10, {}, quiet);
    await until(() => isStarted(ticket_id));
  }
  // In turn with them, and not behind: many of theirs that were made before are not sent yet.
  const left = await db('outbox').where({ org_id: noisy.org_id }).where('id', '<=', last?.id);
  expect(left.length).toBeGreaterThan(0);
  await burst;
  const [row] = await many<{ parked: number }>(
    db,
    'select count(*)::int as parked from outbox where parked_at is not null',
  );
  expect(row?.parked).toBe(0);
});
