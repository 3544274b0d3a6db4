import { randomUUID } from 'node:crypto';
import { fleet } from '../../../domain/gateways/fleet';
import { act, create } from '../../../domain/gateways/rollout-changes';
import { step } from '../../../domain/gateways/rollout-steps';
import { livingGateways } from '../../../domain/gateways/rollouts';
import { type Db, many } from '../../../domain/sql';
import { reportGateway, stagedVersion } from '../../api/gateways/making';
import { openTestDatabase } from '../../support/database';

let db: Db;
let close: () => Promise<void>;
let group: string;

beforeAll(async () => {
  ({ db, close } = await openTestDatabase());
});
afterAll(() => close());
beforeEach(() => {
  group = `group-${randomUUID()}`;
});

test('a report in older words, without a group, leaves a gateway in the group that it has told', async () => {
  const id = await reportGateway(db, { group_name: group });
  await reportGateway(db, { id, group_name: null, refused_version: 1n, error: 'no' });
  expect(await fleet(db, group)).toMatchObject([{ id, group, refused_version: 1n }]);
  expect(await livingGateways(db, group)).toMatchObject([{ id }]);
  const told = await many(
    db,
    `select e.payload ->> 'group' as in_group from events e
     where e.type = 'gateway.config_rejected' and e.payload ->> 'gateway_id' = :id`,
    { id },
  );
  expect(told).toEqual([{ in_group: group }]);
  const older = await reportGateway(db, { group_name: null });
  expect(await fleet(db, 'default')).toMatchObject([{ id: older, group_name: null }]);
});

/** As if a gateway had last reported so long ago. */
const quietFor = (id: string, minutes: number) =>
  many(
    db,
    'update gateways set seen_at = clock_timestamp() - make_interval(mins => :minutes) where id = :id',
    { id, minutes },
  );

const listed = async () => (await fleet(db, group)).map(({ id }) => id);

test('one that was killed is listed for ten minutes, and longer if an unfinished or failed rollout moved it', async () => {
  const killed = await reportGateway(db, { group_name: group });
  await quietFor(killed, 9);
  expect(await listed()).toEqual([killed]);
  await quietFor(killed, 11);
  expect(await listed()).toEqual([]);

  const moved = await reportGateway(db, { group_name: group });
  const version = await stagedVersion(db);
  const rules = { max_wait_s: 600, apply_s: 30, max_error_ratio: 0.02, note: null, by: 'test' };
  const given = { version, group, ...rules, stages: ['100%'], soak_s: 0 };
  const start = () => db.transaction((trx) => create(trx, given));
  const { id } = await start();
  await step(db, id);
  await quietFor(moved, 11);
  expect(await listed()).toEqual([moved]);
  await db.transaction((trx) => act(trx, id, 'abort'));
  expect(await listed()).toEqual([moved]);

  const next = await reportGateway(db, { group_name: group });
  const completed = await start();
  await step(db, completed.id);
  await reportGateway(db, { id: next, group_name: group, config_version: BigInt(version) });
  expect(await step(db, completed.id)).toMatchObject({ status: 'completed' });
  await quietFor(next, 11);
  expect(await listed()).toEqual([moved]);
});
