import { many } from '../../../domain/sql';
import {
  chat,
  gatewayKey,
  openWorld,
  post,
  type TestGateway,
  type World,
} from '../../support/gateway';
import { credit, makeOrg, type TestOrg } from '../../support/ledger';
import { openAtMinute } from '../../support/limits';

// The world of the tests of limits, and how they ask in it. A test file that imports this also gets
// its hooks.

export const CHAT = '/v1/chat/completions';

export let world: World;

beforeAll(async () => {
  world = await openWorld();
});
afterAll(() => world.close());

export function open(settings: object): Promise<TestGateway> {
  return openAtMinute(world, { settings });
}

/** The status of one call, and what its headers and error say of limits. */
export async function ask(
  gateway: TestGateway,
  { key = world.key, body = chat('hi'), headers = {} }: Asked = {},
) {
  const answer = await post(gateway.url + CHAT, key, body, headers);
  const error = answer.status < 400 ? undefined : JSON.parse(answer.text).error;
  return {
    status: answer.status,
    limit: Number(answer.headers['x-ratelimit-limit']),
    remaining: Number(answer.headers['x-ratelimit-remaining']),
    reset: Number(answer.headers['x-ratelimit-reset']),
    should_retry: answer.headers['x-should-retry'],
    retry_after: answer.headers['retry-after'],
    error,
  };
}

interface Asked {
  key?: string;
  body?: object;
  headers?: Record<string, string>;
}

export async function statuses(gateway: TestGateway, count: number, asked: Asked = {}) {
  const found: number[] = [];
  for (let n = 0; n < count; n += 1) found.push((await ask(gateway, asked)).status);
  return found;
}

export async function keyOf(org_id: string, more: Parameters<typeof gatewayKey>[2] = {}) {
  const key = await gatewayKey(world.api, org_id, more);
  const [row] = await many<{ id: string }>(
    world.api.db,
    'select t.id from tokens t where t.org_id = :org_id order by t.created_at desc, t.id desc limit 1',
    { org_id },
  );
  return { key, key_id: row?.id as string };
}

export async function newOrg(): Promise<TestOrg> {
  const org = await makeOrg(world.api.db);
  await credit(world.api.db, org.org_id, org.org_wallet, 10_000_000_000n);
  return org;
}

export const per = (scope: string, limits: object) => ({ rate_limits: { [scope]: limits } });
