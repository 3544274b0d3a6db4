import { randomUUID } from 'node:crypto';
import { look } from '../../api/notices/worker-watch';
import { claimLook } from '../../domain/notices/worker-troubles';
import { many } from '../../domain/sql';
import { platformKey } from '../support/keys';
import { until } from '../support/until';
import { makeDestination, type NoticeWorld, openNoticeWorld } from './world';

let world: NoticeWorld;
let path: string;

beforeAll(async () => {
  world = await openNoticeWorld();
  path = `/hooks/${randomUUID()}`;
  await makeDestination(world, await platformKey(world.db), { channel: 'webhook', path });
});
afterAll(() => world.close());

/** What arrived, as kind and queue. */
const arrived = () =>
  world.receiver.arrivals
    .filter((one) => one.path === path)
    .flatMap(({ body }) =>
      body.data.notices.map(
        ({ details }: { details: { task_queue: string } }) => `${body.type} ${details.task_queue}`,
      ),
    )
    .sort();

const written = async () =>
  (
    await many<{ told: string }>(
      world.db,
      `select type || ' ' || (payload ->> 'task_queue') as told from events
       where type like 'worker.%' or type = 'outbox.parked' order by 1`,
      {},
    )
  ).map(({ told }) => told);

/** Minutes pass for what was seen and told. */
const later = (minutes: number) =>
  many(
    world.db,
    `update worker_troubles set first_seen_at = first_seen_at - :minutes * interval '1 minute',
       told_at = told_at - :minutes * interval '1 minute'`,
    { minutes },
  );

const park = (queued: string) =>
  many(
    world.db,
    `insert into outbox (org_id, workflow, workflow_id, input, parked_at, attempts)
     values ('org_1', 'costTicket', :queued, '{}', clock_timestamp(), 20)`,
    { queued },
  );

test('queues that nobody polls are told of once they lasted a minute, once', async () => {
  // Nobody runs worker_export and worker_config here.
  await until(async () => {
    await look(world, 0);
    const found = await many(world.db, 'select id from worker_troubles order by id', {});
    return found.length === 2;
  });
  expect(await written()).toEqual([]);
  await later(2);
  await until(async () => {
    await look(world, 0);
    return (await written()).length > 0;
  });
  for (let n = 0; n < 3; n += 1) await look(world, 0);
  expect(await written()).toEqual(['worker.missing config', 'worker.missing export']);
  await until(() => arrived().length === 2);
  expect(arrived()).toEqual(['worker_missing config', 'worker_missing export']);
});

test('messages that were given up are told of again when there are more, ten minutes later', async () => {
  const parkedTold = async () =>
    (await written()).filter((told) => told === 'outbox.parked outbox');
  await park('tkt_1');
  await look(world, 0);
  await later(2);
  await look(world, 0);
  expect(await parkedTold()).toHaveLength(1);
  await park('tkt_2');
  await look(world, 0);
  expect(await parkedTold()).toHaveLength(1);
  await later(11);
  for (let n = 0; n < 2; n += 1) await look(world, 0);
  expect(await parkedTold()).toHaveLength(2);
  await until(() => arrived().length === 4);
});

test('while Temporal is away nothing is forgotten; what is well again is', async () => {
  const away = { status: () => Promise.reject(new Error('away')) };
  const ids = async () =>
    (await many<{ id: string }>(world.db, 'select id from worker_troubles order by id', {})).map(
      ({ id }) => id,
    );
  const missing = ['worker.missing config', 'worker.missing export'];
  await look({ db: world.db, temporal: away }, 0);
  expect(await ids()).toEqual(['outbox.parked outbox', ...missing]);
  await many(world.db, 'delete from outbox where parked_at is not null', {});
  await look({ db: world.db, temporal: away }, 0);
  expect(await ids()).toEqual(missing);
  await many(
    world.db,
    `insert into worker_troubles (id) values ('worker.behind export') on conflict do nothing`,
    {},
  );
  await until(async () => {
    await look(world, 0);
    return (await ids()).length === missing.length;
  });
  expect(await ids()).toEqual(missing);
});

test('of several APIs one looks', async () => {
  await many(world.db, `update worker_looks set looked_at = now() - interval '1 hour'`, {});
  const claims = await Promise.all(Array.from({ length: 5 }, () => claimLook(world.db, 29)));
  expect(claims.filter(Boolean)).toHaveLength(1);
});
