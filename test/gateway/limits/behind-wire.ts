import {
  chat,
  gatewayKey,
  openWorld,
  post,
  type TestGateway,
  type World,
} from '../../support/gateway';
import { credit, makeOrg, type TestOrg } from '../../support/ledger';
import { openAtMinute, openSharing } from '../../support/limits';
import { type BreakableRedis, openRedis } from '../../support/redis';
import { openWire, type Wire } from '../../support/wire';

// A world whose models are behind a wire, with a Redis for its gateways. A test file that imports
// this also gets its hooks.

export const CHAT = '/v1/chat/completions';

export let world: World;
export let wire: Wire;
export let redis: BreakableRedis;

beforeAll(async () => {
  world = await openWorld();
  wire = await openWire(world.models_url);
  redis = await openRedis();
  process.env.TEST_REDIS_URL = redis.url;
});
afterEach(() => {
  wire.set('pass');
  wire.release();
});
afterAll(async () => {
  await world.close();
  await wire.close();
  await redis.close();
});

/** A gateway whose models are behind the wire. */
export function open(settings: object): Promise<TestGateway> {
  return openAtMinute(world, { settings, target: { base_url: `${wire.url}/v1` } });
}

/** The same with a clock that goes, and a store that may answer late. */
export function openRunning(settings: object): Promise<TestGateway> {
  return openSharing(world, { settings, target: { base_url: `${wire.url}/v1` } });
}

export async function ask(
  gateway: TestGateway,
  key = world.key,
  headers: Record<string, string> = {},
) {
  const answer = await post(gateway.url + CHAT, key, chat('hi'), headers);
  const error = answer.status < 400 ? {} : JSON.parse(answer.text).error;
  return { status: answer.status, error, headers: answer.headers };
}

export async function fundedKey(amount = 10_000_000_000n): Promise<{ org: TestOrg; key: string }> {
  const org = await makeOrg(world.api.db);
  if (amount > 0n) await credit(world.api.db, org.org_id, org.org_wallet, amount);
  return { org, key: await gatewayKey(world.api, org.org_id, { user_id: org.user_id }) };
}

export const global = (limits: object, more: object = {}) => ({
  rate_limits: { global: limits },
  global_rate_limit: more,
});
