import { randomUUID } from 'node:crypto';
import * as configs from '../../../domain/gateways/configs';
import { act, create } from '../../../domain/gateways/rollout-changes';
import { step } from '../../../domain/gateways/rollout-steps';
import { get } from '../../../domain/gateways/rollouts';
import { servedByVersions } from '../../../domain/prices/factors';
import type { Db } from '../../../domain/sql';
import { reportGateway } from '../../api/gateways/making';
import { openTestDatabase } from '../../support/database';

// What the API looks at is what gateways are to run, however they came to it.

let db: Db;
let close: () => Promise<void>;

beforeAll(async () => {
  ({ db, close } = await openTestDatabase());
});
afterAll(() => close());

const by = 'test';
const serving = (model: string, price_factor?: number) => {
  const target = { id: 'a', kind: 'openai', models: [model], price_factor };
  return { providers: { targets: [target] } };
};

function put(config: Record<string, unknown> | null, is_staged = false) {
  return configs.put(db, { config, config_hash: null, note: null, by, is_staged });
}

/** A rollout of a configuration in a group that has a gateway; its id. */
async function rollOut(config: Record<string, unknown>, group: string): Promise<string> {
  const id = randomUUID();
  await reportGateway(db, { id, group_name: group });
  const { version } = await put(config, true);
  const rules = { max_wait_s: 600, apply_s: 30, max_error_ratio: 0.02, note: null, by };
  const made = await db.transaction((trx) =>
    create(trx, { version: Number(version), group, ...rules, stages: ['100%'], soak_s: 0 }),
  );
  await step(db, made.id);
  return made.id;
}

/** Its gateway runs the version, so that it completes. */
async function complete(id: string, group: string): Promise<void> {
  const { version } = await get(db, id);
  for (const { id: gateway } of await db('gateways').where({ group_name: group }).select('id'))
    await reportGateway(db, { id: gateway, group_name: group, config_version: version });
  await step(db, id);
  expect(await get(db, id)).toMatchObject({ status: 'completed' });
}

async function seen() {
  const { served, factors } = await servedByVersions(db, await configs.assigned(db));
  return { models: served.map(({ model }) => model).sort(), factor: factors.openai };
}

const shown = async (group: string) => (await configs.ofGroup(db, group))?.config ?? null;

test('a rollout counts while it goes on and once it has completed', async () => {
  expect(await seen()).toEqual({ models: [], factor: undefined });
  await put(serving('old'));
  expect(await seen()).toEqual({ models: ['old'], factor: '1' });
  const id = await rollOut(serving('new', 1.1), 'default');
  expect(await seen()).toEqual({ models: ['new', 'old'], factor: '1.1' });
  expect(await shown('default')).toEqual(serving('old'));
  await complete(id, 'default');
  expect(await seen()).toEqual({ models: ['new'], factor: '1.1' });
  expect(await shown('default')).toEqual(serving('new', 1.1));
});

test('each group that has gateways counts, and one that was sent back does not', async () => {
  await put(serving('all'));
  const id = await rollOut(serving('eu'), 'eu');
  await complete(id, 'eu');
  expect((await seen()).models).toEqual(['all', 'eu']);
  expect(await shown('eu')).toEqual(serving('eu'));
  expect(await shown('default')).toEqual(serving('all'));
  const back = await rollOut(serving('never'), 'eu');
  await db.transaction((trx) => act(trx, back, 'abort'));
  expect((await seen()).models).toEqual(['all', 'eu']);
  await put(null);
  expect(await seen()).toEqual({ models: [], factor: undefined });
  expect(await shown('eu')).toBeNull();
});
