import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { request } from 'undici';
import * as budgets from '../../domain/ledger/budgets';
import { type Permission, rolePermissions } from '../../domain/people/roles';
import * as tokens from '../../domain/people/tokens';
import { markFolder } from '../../exports/folder';
import { root } from '../../runtime/root';
import { makeTenant, serve, type Tenant } from '../support/api';
import { makeKey, makeKeyId, platformKey } from '../support/keys';
import { chat, reserveBody } from '../support/ledger';
import { makeShort, openTicketWorld, type TicketWorld } from '../support/tickets';
import { until } from '../support/until';
import { changesOf, pathOf } from './changes';
import { newDestination, newMessage, noticeBodies } from './changes-of-notices';
import { planOfOne } from './changes-of-prices';
import { callers, rows } from './matrix-rows';

// Who may call which route of the control plane: every route of openapi.json, called by everybody.

interface Operation {
  parameters?: { name: string; in: string }[];
  requestBody?: { content: { 'application/json': { schema: { properties?: object } } } };
}

const document = JSON.parse(readFileSync(path.join(root, 'openapi.json'), 'utf8')) as {
  paths: Record<string, Record<string, Operation>>;
};
const operations = Object.entries(document.paths).flatMap(([at, methods]) =>
  Object.entries(methods).map(([method, operation]) => {
    const route = at.replace(/\{(\w+)\}/g, ':$1');
    return { name: `${method} ${route}`, method, route, operation };
  }),
);
type Route = (typeof operations)[number];

let world: TicketWorld;
let url: string;
let close: () => Promise<void>;
let tenant: Tenant;
let platform: string;
let reservation_id: string;
const request_id = randomUUID();
let export_dir: string;
const keys: Record<string, string | undefined> = {};

beforeAll(async () => {
  world = await openTicketWorld();
  const { db, temporal } = world;
  export_dir = await mkdtemp(path.join(tmpdir(), 'svc-matrix-'));
  await markFolder({ db, dir: export_dir });
  ({ url, close } = await serve({ db, temporal, export_dir }));
  tenant = await makeTenant(db);
  const { org_id, member_id: user_id } = tenant;
  const other = await makeTenant(db);
  platform = await platformKey(db);
  const credit = { org_id, target_wallet_owner_type: 'organization', amount: 1 };
  await world.call('post', '/v1/admin/wallets/credit', { key: platform, body: credit });
  const hold = { key: world.machine, body: reserveBody(org_id, 1, { request_id }) };
  const held = await world.call('post', '/v1/gateway/wallets/reserve', hold);
  reservation_id = held.body.reservation_id;
  const of = (scopes: readonly Permission[], more: object = {}) =>
    makeKey(db, org_id, { scopes, ...more });
  keys.gateway = await of([], { token_type: 'gateway' });
  keys.member = await of([], { user_id });
  keys.admin = await of(rolePermissions.admin);
  keys.billing = await of(rolePermissions.billing_admin);
  keys.owner = tenant.owner_key;
  keys.other = other.owner_key;
  keys.platform = platform;
  keys.control = world.machine;
  keys.revoked = await of(rolePermissions.owner, { name: 'revoked' });
  await tokens.revoke(db, org_id, await tokens.find(db, org_id, 'revoked'));
  keys.expired = await of(rolePermissions.owner, { name: 'expired' });
  await db('tokens')
    .where({ name: 'expired' })
    .update({ expires_at: new Date(0) });
});

afterAll(async () => {
  await close();
  await world.close();
  await rm(export_dir, { recursive: true });
});

test('every route of openapi.json has a row, and no row is left over', () => {
  expect(Object.keys(rows).sort()).toEqual(operations.map(({ name }) => name).sort());
});

test.each(operations.map((one) => [one.name, one] as const))(
  '%s answers each caller as its row says',
  async (name, route) => {
    const seen: (string | number)[] = [];
    for (const caller of callers) seen.push(await statusOf(route, caller));
    expect([name, seen.join(' ')]).toEqual([name, rows[name]]);
  },
);

/** One call, with things of the tenant that were made for it. */
async function statusOf(route: Route, caller: string): Promise<number> {
  // All sign-ins come from one address, whose tries are counted elsewhere.
  await world.db('sign_in_tries').delete();
  const { id, body } = await given(route);
  const address = new URL(pathOf(route.route, id, tenant).replace(/:\w+/g, 'unknown'), url);
  const takesOrg = (names: (string | undefined)[]) => names.includes('org_id');
  const { parameters = [], requestBody } = route.operation;
  // The organization is named, so that another tenant's owner asks for this one.
  if (takesOrg(parameters.map((one) => (one.in === 'query' ? one.name : undefined))))
    address.searchParams.set('org_id', tenant.org_id);
  if (parameters.some((one) => one.name === 'ids'))
    address.searchParams.set('ids', tenant.member_id);
  const fields = Object.keys(requestBody?.content['application/json'].schema.properties ?? {});
  const named = takesOrg(fields) ? { org_id: tenant.org_id } : {};
  const key = keys[caller];
  const answer = await request(address, {
    method: route.method.toUpperCase() as 'GET',
    headers: {
      ...(key === undefined ? {} : { authorization: `Bearer ${key}` }),
      ...(route.method === 'get' ? {} : { 'content-type': 'application/json' }),
    },
    body: route.method === 'get' ? null : JSON.stringify({ ...named, ...body }),
  });
  // A stream has no end of its own.
  if (String(answer.headers['content-type']).startsWith('text/event-stream')) answer.body.destroy();
  else await answer.body.dump();
  return answer.statusCode;
}

interface Given {
  id?: string | undefined;
  body?: object | undefined;
}

async function given({ name, route }: Route): Promise<Given> {
  const change = changesOf({ db: world.db, call: world.call, tenant, platform })[name];
  if (change !== undefined) {
    const { of, body } = change;
    return { id: await of?.(), body: typeof body === 'function' ? await body() : body };
  }
  const things: [RegExp, () => Promise<string>][] = [
    [/wallets\/:id/, async () => tenant.wallet_id],
    [/cost-tickets\/:id/, newTicket],
    [/payments\/(sessions\/)?:id/, newSession],
    [/reservations\/:id/, async () => reservation_id],
    [/notice-destinations\/:id/, () => newDestination(world.db, tenant)],
    [/notice-messages\/:id/, () => newMessage(world.db, tenant)],
    [/requests\/:id/, async () => request_id],
    [/budgets\/:id/, newBudget],
    [/events\/:id/, newestEvent],
    [/exports\/:id$/, newExport],
    [/files\/:n/, async () => '0'],
    [/tokens\/:name/, newKey],
    [/me\/keys\/:name/, newMemberKey],
    [/members\/:user_id/, async () => tenant.member_id],
    [/agents\/:agent_id/, async () => tenant.agent_id],
    [/:provider$/, async () => 'payment_provider_b'],
  ];
  const thing = things.find(([pattern]) => pattern.test(route));
  return { id: await thing?.[1](), body: await bodies[name]?.() };
}

const ofTeam = () => ({ user_id: tenant.member_id, amount: 1_000 });
const target = { target_wallet_owner_type: 'organization', amount: 1 };
const pages = { return_url: 'http://127.0.0.1/a', cancel_url: 'http://127.0.0.1/b' };

const bodies: Record<string, () => Promise<object>> = {
  'post /v1/wallets/credit': async () => target,
  'post /v1/admin/wallets/credit': async () => target,
  'post /v1/wallets/allocate': async () => ({ team_id: tenant.team_id, amount: 0.001 }),
  'post /v1/wallets/reclaim': async () => ({ user_id: tenant.member_id, amount: 1_000 }),
  'post /v1/organizations/:id/teams/:team_id/allocate': async () => ofTeam(),
  'post /v1/organizations/:id/teams/:team_id/reclaim': async () => ofTeam(),
  'post /v1/payments/create-checkout': async () => ({ ...target, surface: 'console', ...pages }),
  'post /v1/payments/confirm-checkout': async () => ({
    payment_session_id: await newSession(),
    provider_session_token: 'unknown',
    checkout_state: 'unknown',
    provider: 'payment_provider_b',
  }),
  'post /v1/payments/create-order': async () => ({ amount: 10, ...pages }),
  'post /v1/payments/capture-order': async () => ({ order_id: 'unknown' }),
  'post /v1/admin/payments/refund': async () => ({
    payment_session_id: await newSession(),
    reason: 'test',
  }),
  'post /v1/admin/payments/:id/resolve': async () => ({ action: 'close', reason: 'test' }),
  'post /v1/admin/model-pricing/preview': async () => ({ ...chat, input_per_1m: 1 }),
  'post /v1/admin/price-imports/diff': async () => planOfOne(),
  'post /v1/admin/price-imports': async () => planOfOne(),
  'post /v1/admin/settlement-excess/:id': async () => ({ action: 'drop' }),
  'post /v1/exports': async () => period,
  'post /v1/admin/exports': async () => period,
  ...noticeBodies,
  // No object store is listed here.
  'post /v1/export-destinations': async () => ({
    endpoint: 'https://s3.example.com',
    region: 'eu-central-1',
    bucket: 'acme',
    access_key_id: 'unknown',
    secret_access_key: 'unknown',
  }),
  'post /v1/cost-tickets/verdicts': async () => ({
    verdict: 'deny',
    ticket_ids: [await newTicket()],
  }),
  'post /v1/sessions': async () => ({}),
  'post /v1/gateway/wallets/reserve': async () => reserveBody(tenant.org_id, 1),
  'post /v1/gateway/provider-keys': async () => ({ provider: 'openai' }),
};

const period = { kinds: ['ledger'], from: '2026-06-01', to: '2026-06-02' };

/** An export of the tenant that was canceled. */
async function newExport(): Promise<string> {
  const [made] = await world
    .db('exports')
    .insert({
      org_id: tenant.org_id,
      kinds: ['ledger'],
      format: 'csv',
      from_time: period.from,
      to_time: period.to,
      status: 'canceled',
      snapshot: '1:1:',
      created_by: tenant.member_id,
    })
    .returning('id');
  return made.id;
}

async function newTicket(): Promise<string> {
  const poor = { team_id: undefined, estimated_prompt_tokens: 9_000_000_000 };
  return (await makeShort(world, 1, poor, tenant)).ticket_id;
}

async function newBudget(): Promise<string> {
  const { org_id } = tenant;
  const made = await budgets.create(world.db, {
    org_id,
    owner_type: 'key',
    owner_id: await makeKeyId(world.db, org_id, { token_type: 'gateway' }),
    limit_nanos: 1_000_000_000n,
    window: 'day',
    on_exceed: 'refuse',
    thresholds: [100],
    created_by: null,
  });
  return made.id;
}

async function newestEvent(): Promise<string> {
  await newTicket();
  const row = await world
    .db('events')
    .where({ org_id: tenant.org_id })
    .orderBy('id', 'desc')
    .first();
  // Readers stay below the oldest transaction that is open, also in the databases of other tests.
  const event = `/v1/events/${row.id}`;
  await until(async () => (await world.call('get', event, { key: keys.owner })).status === 200);
  return row.id;
}

/** A session of the tenant's member that was canceled. */
async function newSession(): Promise<string> {
  const { org_id, member_id: user_id, wallet_id } = tenant;
  const [made] = await world
    .db('payment_sessions')
    .insert({
      org_id,
      user_id,
      created_by: user_id,
      provider: 'payment_provider_b',
      surface: 'console',
      amount_nanos: 1_000_000_000n,
      currency: 'USD',
      target_wallet_owner_type: 'organization',
      wallet_id,
      return_url: pages.return_url,
      cancel_url: pages.cancel_url,
      status: 'canceled',
    })
    .returning('id');
  return made.id;
}

function newMemberKey(): Promise<string> {
  const changes = changesOf({ db: world.db, call: world.call, tenant, platform });
  return changes['delete /v1/me/keys/:name']?.of?.() as Promise<string>;
}

async function newKey(): Promise<string> {
  const name = `key ${randomUUID()}`;
  await makeKey(world.db, tenant.org_id, { name });
  return name;
}
