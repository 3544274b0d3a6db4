import { randomUUID } from 'node:crypto';
import { fleet } from '../../../domain/gateways/fleet';
import { livingGateways } from '../../../domain/gateways/rollouts';
import { type Db, many } from '../../../domain/sql';
import { reportGateway } from '../../api/gateways/making';
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
