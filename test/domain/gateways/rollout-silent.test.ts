import { randomUUID } from 'node:crypto';
import { act, create } from '../../../domain/gateways/rollout-changes';
import { step } from '../../../domain/gateways/rollout-steps';
import { get, movedBy, type Rollout } from '../../../domain/gateways/rollouts';
import { type Db, many } from '../../../domain/sql';
import { reportGateway, stagedVersion } from '../../api/gateways/making';
import { openTestDatabase } from '../../support/database';

// Gateways that die before they are moved, or once they are: neither is a version's fault, and
// none of them is a version's success.

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

async function gateways(count: number): Promise<string[]> {
  const ids = [];
  for (let n = 0; n < count; n += 1) ids.push(await reportGateway(db, { group_name: group }));
  return ids;
}

async function begin(more: object = {}): Promise<Rollout> {
  const version = await stagedVersion(db);
  const rules = { max_wait_s: 600, apply_s: 30, max_error_ratio: 0.02, note: null, by: 'test' };
  return db.transaction((trx) => create(trx, { version, group, ...rules, soak_s: 60, ...more }));
}

const moved = async ({ id }: Rollout) =>
  (await movedBy(db, id)).map(({ gateway_id }) => gateway_id);

/** A gateway has said nothing for so long. */
async function silence(id: string, seconds: number): Promise<void> {
  await many(
    db,
    'update gateways set seen_at = clock_timestamp() - make_interval(secs => :seconds) where id = :id',
    { id, seconds },
  );
}

/** They report, and run the version of a rollout. */
async function apply({ version }: Rollout, ids: readonly string[]): Promise<void> {
  for (const id of ids)
    await reportGateway(db, { id, group_name: group, config_version: version, counts: null });
}

test('a gateway that is silent is not moved, though it is the first of the order', async () => {
  const ids = await gateways(3);
  const before = await begin();
  await step(db, before.id);
  const [first = ''] = await moved(before);
  await db.transaction((trx) => act(trx, before.id, 'abort'));
  await silence(first, 21);
  const rollout = await begin();
  await step(db, rollout.id);
  const [other] = await moved(rollout);
  expect(ids.filter((id) => id !== first)).toContain(other);
});

test('the last one is waited for while it is silent, moved once it reports, and left if it is gone', async () => {
  const stages = [1, '100%'];
  for (const end of ['reports', 'gone']) {
    group = `group-${randomUUID()}`;
    const ids = await gateways(2);
    const rollout = await begin({ stages, soak_s: 0 });
    await step(db, rollout.id);
    const [first = ''] = await moved(rollout);
    const last = ids.find((id) => id !== first) ?? '';
    await apply(rollout, [first]);
    await silence(last, 40);
    const waiting = await step(db, rollout.id);
    expect(waiting).toMatchObject({ status: 'running', is_over: false });
    expect(waiting.summary).toContain('what is silent is not moved');
    expect(await moved(rollout)).toEqual([first]);
    if (end === 'reports') await reportGateway(db, { id: last, group_name: group });
    else await silence(last, 61);
    await apply(rollout, [first]);
    await step(db, rollout.id);
    expect(await moved(rollout)).toEqual(end === 'reports' ? [first, last] : [first]);
    const { status } = await get(db, rollout.id);
    expect(status).toBe(end === 'reports' ? 'running' : 'completed');
  }
});

test.each([
  ['at once', { stages: ['100%'], soak_s: 0 }],
  ['in stages without soak', { stages: [2, '100%'], soak_s: 0 }],
  ['with a soak', { stages: ['100%'], soak_s: 60 }],
])(
  'a version that is brought %s is not completed by gateways that have stopped: others take their place',
  async (_, how) => {
    const old = await gateways(2);
    const rollout = await begin(how);
    await step(db, rollout.id);
    expect((await moved(rollout)).sort()).toEqual([...old].sort());
    // They are replaced before any of them has taken it up; one says so, one is only gone.
    const [stopped = '', gone = ''] = old;
    await reportGateway(db, { id: stopped, group_name: group, is_draining: true });
    await db('gateways').where({ id: gone }).delete();
    const young = await gateways(2);
    await step(db, rollout.id);
    expect(await get(db, rollout.id)).toMatchObject({ status: 'running', applied_at: null });
    expect((await moved(rollout)).slice(2).sort()).toEqual([...young].sort());
    await step(db, rollout.id);
    expect(await get(db, rollout.id)).toMatchObject({ status: 'running', applied_at: null });
    await apply(rollout, young);
    await step(db, rollout.id);
    const { status, applied_at } = await get(db, rollout.id);
    expect([status, applied_at]).toEqual([
      how.soak_s === 0 ? 'completed' : 'running',
      expect.any(Date),
    ]);
  },
);

test('a version whose gateways have all stopped waits for others, paused', async () => {
  const [only = ''] = await gateways(1);
  const rollout = await begin({ stages: ['100%'], soak_s: 0 });
  await step(db, rollout.id);
  await reportGateway(db, { id: only, group_name: group, is_draining: true });
  await step(db, rollout.id);
  expect(await get(db, rollout.id)).toMatchObject({ status: 'paused', reason_code: 'no_gateways' });
});

test('the last stage goes on with one that was silent as it began', async () => {
  const ids = await gateways(3);
  const silent = ids[1] ?? '';
  await silence(silent, 25);
  const rollout = await begin({ stages: ['100%'], soak_s: 0 });
  await step(db, rollout.id);
  const first = ids.filter((id) => id !== silent);
  expect(new Set(await moved(rollout))).toEqual(new Set(first));
  await apply(rollout, first);
  await reportGateway(db, { id: silent, group_name: group });
  await step(db, rollout.id);
  expect(new Set(await moved(rollout))).toEqual(new Set(ids));
  expect((await get(db, rollout.id)).status).toBe('running');
  await apply(rollout, ids);
  await step(db, rollout.id);
  expect((await get(db, rollout.id)).status).toBe('completed');
});
