import pino from 'pino';
import {
  arrivals,
  chat,
  forgetArrivals,
  gatewayKey,
  openWorld,
  post,
  type World,
} from '../../support/gateway';
import { makeKey } from '../../support/keys';
import { credit, makeOrg, type TestOrg } from '../../support/ledger';

// Organizations with keys of their own, and a provider that tells by which it was asked.

export let world: World;
/** What the gateway has logged. */
export const lines: string[] = [];
export const log = pino({ level: 'trace' }, { write: (line: string) => void lines.push(line) });
/** The gateway. */
export let url: string;

beforeAll(async () => {
  world = await openWorld();
  ({ url } = await world.openGateway({ log }));
});

afterAll(() => world.close());

/** An organization with money, and what it asks and manages its keys by. */
export interface Owner extends TestOrg {
  key: string;
  access_key: string;
}

export async function makeOwner(nanos = 1_000_000_000n): Promise<Owner> {
  const { api } = world;
  const org = await makeOrg(api.db, { own_key_factor_min: 0 });
  if (nanos > 0n) await credit(api.db, org.org_id, org.org_wallet, nanos);
  const access_key = await makeKey(api.db, org.org_id, { scopes: ['org:billing'] });
  return { ...org, key: await gatewayKey(api, org.org_id), access_key };
}

export const bring = async (owner: Owner, body: object): Promise<string> => {
  const path = '/v1/provider-keys';
  const given = { provider: 'openai', ...body };
  const made = await world.api.call('post', path, { key: owner.access_key, body: given });
  expect(made.status).toBe(201);
  return made.body.id;
};
export const manage = async (owner: Owner, method: string, path: string, body?: object) => {
  const at = `/v1/provider-keys/${path}`;
  expect((await world.api.call(method, at, { key: owner.access_key, body })).status).toBe(200);
};
export const ask = (owner: { key: string }, body: object = chat('Hello'), at = url) =>
  post(`${at}/v1/chat/completions`, owner.key, body);

/** By which keys the provider was asked since it was last forgotten. */
export async function keysSeen(): Promise<string[]> {
  const seen = await arrivals(world.models_url);
  await forgetArrivals(world.models_url);
  return seen.map(({ headers }) =>
    (headers.authorization ?? headers['x-api-key'] ?? '').replace('Bearer ', ''),
  );
}

export const PLATFORM = 'upstream-secret';
export const secret = (word: string) => `sk-own-${word}-0123456789abcdef`;
export const bad = (status: number, word: string) => `sk-refused-${status}-${word}-0123456789`;
