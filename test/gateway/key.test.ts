import { createServer } from 'node:http';
import { text } from 'node:stream/consumers';
import { request } from 'undici';
import * as budgets from '../../domain/ledger/budgets';
import { many } from '../../domain/sql';
import { listen } from '../../runtime/listen';
import { API_VERSION } from '../../runtime/version';
import { chat, gatewayKey, openWorld, post, type World } from '../support/gateway';
import { credit, makeOrg } from '../support/ledger';
import { openAtMinute } from '../support/limits';

let world: World;

beforeAll(async () => {
  world = await openWorld();
});

afterAll(() => world.close());

async function shown(url: string, key: string, headers: Record<string, string> = {}) {
  const authorization = `Bearer ${key}`;
  const answer = await request(`${url}/v1/key`, { headers: { authorization, ...headers } });
  const body = (await answer.body.json()) as Record<string, unknown> & { error?: object };
  return { status: answer.statusCode, headers: answer.headers, body };
}

/** A key of a new organization's person in a team, with money in the team's wallet. */
async function personKey(more: Parameters<typeof gatewayKey>[2] = {}) {
  const org = await makeOrg(world.api.db);
  await credit(world.api.db, org.org_id, org.team_wallet, 5_000_000_000n);
  const { user_id, team_id } = org;
  const key = await gatewayKey(world.api, org.org_id, { user_id, team_id, ...more });
  const [row] = await many<{ id: string }>(
    world.api.db,
    `select id from tokens where org_id = :org_id and token_type = 'gateway'`,
    { org_id: org.org_id },
  );
  return { org, key, key_id: row?.id as string };
}

const made = { on_exceed: 'refuse', thresholds: [], created_by: 'test' } as const;

test('a budget that was raised to the end of the numbers is told as the most that a limit may be', async () => {
  const { org, key } = await personKey();
  const { org_id, team_id } = org;
  const { db } = world.api;
  const limit_nanos = 9_000_000_000_000_000_000n;
  const { id } = await budgets.create(db, {
    ...made,
    ...{ org_id, owner_type: 'team', owner_id: team_id, limit_nanos, window: 'month' },
  });
  await many(db, 'update budgets set raised_nanos = 9000000000000000000 where id = :id', { id });
  const { status, body } = await shown(world.url, key);
  expect(status).toBe(200);
  expect(body.budgets).toMatchObject([{ id, limit: 9_000_000_000 }]);
  // The audit would miss the approvals behind it.
  await many(db, 'update budgets set raised_nanos = 0 where id = :id', { id });
});

test('a key is told its budgets, the wallet that would pay, its limits and what is left of each', async () => {
  const expires_at = new Date(Date.now() + 86_400_000);
  const { org, key, key_id } = await personKey({
    ...{ rpm: 10, tpm: 1_000_000, max_parallel_requests: 3, expires_at, include_cost: true },
    allowed_models: ['gpt-4o-mini'],
    max_budget_nanos: 2_000_000_000n,
  });
  const { org_id, team_id, user_id } = org;
  for (const [owner_type, owner_id, limit_nanos] of [
    ['team', team_id, 3_000_000_000n],
    ['organization', org_id, 4_000_000_000n],
  ] as const)
    await budgets.create(world.api.db, {
      ...made,
      org_id,
      owner_type,
      owner_id,
      limit_nanos,
      window: 'month',
    });
  const { url } = await openAtMinute(world, {
    settings: { rate_limits: { global: { rpm: 100 } } },
  });
  expect((await post(`${url}/v1/chat/completions`, key, chat('Hello'))).status).toBe(200);
  const { status, body } = await shown(url, key);
  expect(status).toBe(200);
  expect(body).toMatchObject({
    ...{ object: 'key', id: key_id, org_id, user_id, team_id, agent_id: null },
    expires_at: expires_at.toISOString(),
    include_cost: true,
    models: ['gpt-4o-mini'],
    currency: 'USD',
    wallet: { owner_type: 'team' },
  });
  const {
    budgets: all,
    wallet,
    limits,
  } = body as unknown as {
    budgets: { owner_type: string; limit: number; remaining: number; resets_at: string | null }[];
    wallet: { balance: number };
    limits: { scope: string; limit_type: string; limit: number; remaining: number }[];
  };
  expect(all.map(({ owner_type, limit }) => [owner_type, limit])).toEqual([
    ['key', 2],
    ['team', 3],
    ['organization', 4],
  ]);
  for (const { limit, remaining } of all) {
    expect(remaining).toBeLessThan(limit);
    expect(remaining).toBeGreaterThan(limit - 0.01);
  }
  expect(all.map(({ resets_at }) => resets_at !== null)).toEqual([false, true, true]);
  expect(wallet.balance).toBeLessThan(5);
  const left = limits.map((one) => [one.scope, one.limit_type, one.limit, one.remaining]);
  expect(left).toEqual([
    ['per_key', 'rpm', 10, 8],
    ['per_key', 'tpm', 1_000_000, expect.any(Number)],
    ['per_key', 'parallel', 3, 3],
    ['global', 'rpm', 100, 98],
  ]);
});

test("it counts as one of the key's requests, is refused beyond them, and costs nothing", async () => {
  const { key, org } = await personKey({ rpm: 2, tpm: 1 });
  const { url } = await openAtMinute(world, {});
  const answers = [await shown(url, key), await shown(url, key), await shown(url, key)];
  expect(answers.map(({ status }) => status)).toEqual([200, 200, 429]);
  expect(answers[2]?.body.error).toMatchObject({ scope: 'per_key', limit_type: 'rpm' });
  expect(answers[2]?.headers['retry-after']).toMatch(/^[1-9]\d*$/);
  const rows = await many(world.api.db, 'select 1 from reservations where org_id = :org_id', {
    org_id: org.org_id,
  });
  expect(rows).toEqual([]);
});

test('a key of nobody sees its own budget, and no balance', async () => {
  const { org } = await personKey();
  const key = await gatewayKey(world.api, org.org_id, {
    team_id: org.team_id,
    max_budget_nanos: 1_000_000_000n,
  });
  await budgets.create(world.api.db, {
    ...made,
    org_id: org.org_id,
    owner_type: 'team',
    owner_id: org.team_id,
    limit_nanos: 3_000_000_000n,
    window: 'month',
  });
  const { body } = await shown(world.url, key);
  expect(body).toMatchObject({ user_id: null, wallet: null });
  expect(body.budgets).toEqual([
    {
      ...{ id: null, owner_type: 'key', window: 'life', on_exceed: 'refuse', resets_at: null },
      ...{ limit: 1, remaining: 1 },
    },
  ]);
});

test('a person who has left the team sees nothing of its money', async () => {
  const { org, key } = await personKey();
  await many(world.api.db, 'delete from team_members where team_id = :team_id', {
    team_id: org.team_id,
  });
  expect((await shown(world.url, key)).body).toMatchObject({ wallet: null, budgets: [] });
});

test('headers that prove nobody show nobody’s money', async () => {
  const { org } = await personKey();
  const { url } = await world.openGateway({
    settings: { identity: { mode: 'header_soft', org_id: org.org_id } },
  });
  const headers = { 'x-user-id': org.user_id, 'x-team-id': org.team_id };
  expect((await shown(url, 'any', headers)).body).toMatchObject({
    ...{ id: null, user_id: null, team_id: null, budgets: [], wallet: null },
  });
});

test('behind a control plane of the version before, which does not know the question, it is 503 and says why', async () => {
  const older = createServer(async (req, res) => {
    const body = await text(req);
    const is_known = !req.url?.endsWith('/keys/funds');
    const {
      statusCode,
      headers,
      body: answer,
    } = await request(`${world.api.url}${is_known ? req.url : '/v1/gateway/keys/unknown'}`, {
      method: req.method as 'POST',
      headers: {
        authorization: req.headers.authorization ?? '',
        'x-svc-gateway-version': API_VERSION,
        'content-type': 'application/json',
      },
      body: body === '' ? null : body,
    });
    res.writeHead(statusCode, { 'content-type': String(headers['content-type']) });
    res.end(await answer.text());
  });
  const { url } = await world.openGateway({
    api_urls: [`http://127.0.0.1:${await listen(older, 0)}`],
  });
  const { status, body } = await shown(url, world.key);
  older.closeAllConnections();
  older.close();
  expect([status, body.error]).toEqual([
    503,
    expect.objectContaining({ message: expect.stringContaining('earlier version') }),
  ]);
});

test('while the control plane is away it is 503, with words', async () => {
  const { url } = await world.openGateway({ api_urls: ['http://127.0.0.1:9'] });
  const { status, body } = await shown(url, world.key);
  expect([status, body.error]).toEqual([503, expect.objectContaining({ code: 'unavailable' })]);
});
