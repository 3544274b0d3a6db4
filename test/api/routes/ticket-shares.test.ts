import { setTimeout as sleep } from 'node:timers/promises';
import { many, one } from '../../../domain/sql';
import {
  deny,
  makeShort,
  openTicketWorld,
  type Short,
  type TicketWorld,
} from '../../support/tickets';
import { until } from '../../support/until';

let world: TicketWorld;

beforeAll(async () => {
  world = await openTicketWorld();
});

afterAll(() => world.close());

/** How many verdicts wait for the lock of their organization. */
async function waitingVerdicts(): Promise<number> {
  const { count } = await one<{ count: number }>(
    world.db,
    `select count(*)::int as count from pg_stat_activity
     where datname = current_database() and wait_event_type = 'Lock' and query like '%deny_ticket%'`,
  );
  return count;
}

test('of one organization two verdicts are under way at one time, the others follow in turn, and another’s passes them', async () => {
  const { db, call } = world;
  const first = await makeShort(world, 10);
  const shorts: Short[] = [first];
  while (shorts.length < 6) shorts.push(await makeShort(world, 10, {}, first));
  const stranger = await makeShort(world, 10);
  const trx = await db.transaction();
  await many(trx, 'select lock_organization(:org_id)', { org_id: first.org_id });
  const denials = shorts.map((short) => deny(call, short));
  await until(async () => (await waitingVerdicts()) === 2);
  await sleep(300);
  // One whose time for the lock is over may be between two tries.
  expect(await waitingVerdicts()).toBeLessThanOrEqual(2);
  expect((await deny(call, stranger)).body).toMatchObject({ status: 'denied' });
  expect(await Promise.race([...denials, 'none is answered'])).toBe('none is answered');
  await trx.rollback();
  const answers = await Promise.all(denials);
  expect(answers.map(({ status, body }) => [status, body.status])).toEqual(
    shorts.map(() => [200, 'denied']),
  );
});
