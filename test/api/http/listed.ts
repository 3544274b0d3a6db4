import * as paymentEvents from '../../../domain/payments/events';
import * as sessions from '../../../domain/payments/sessions';
import { type Db, many } from '../../../domain/sql';
import type { CallApi, Tenant } from '../../support/api';
import { makeKey } from '../../support/keys';
import { makeOwnKey } from '../../support/ledger';

export interface World {
  db: Db;
  call: CallApi;
  tenant: Tenant;
  /** A platform admin's key. */
  platform: string;
}

/** A list with pages of one instant, and the table whose times they show. */
export interface Listed {
  path: string;
  table: string;
  /** What says when a row was made, if not `created_at`. */
  column?: string;
  key: string;
}

/** Those lists, by their paths in the document. */
export function listsOf({ tenant, platform }: World): Record<string, Listed> {
  const root = `/v1/organizations/${tenant.org_id}`;
  const adminList = (path: string, table: string) => ({ path, table, key: platform });
  const ownList = (path: string, table: string) => ({ path, table, key: tenant.owner_key });
  return {
    '/v1/wallets': { path: '/v1/wallets', table: 'wallets', key: tenant.billing_key },
    '/v1/admin/wallets': adminList('/v1/admin/wallets', 'wallets'),
    '/v1/admin/settlement-excess': adminList('/v1/admin/settlement-excess', 'settlement_excess'),
    '/v1/admin/issuers': adminList('/v1/admin/issuers', 'identity_issuers'),
    '/v1/admin/organizations': adminList('/v1/admin/organizations', 'organizations'),
    '/v1/organizations/{id}/teams': ownList(`${root}/teams`, 'teams'),
    '/v1/organizations/{id}/members': ownList(`${root}/members`, 'memberships'),
    '/v1/organizations/{id}/members/{user_id}/identities': ownList(
      `${root}/members/${tenant.member_id}/identities`,
      'identities',
    ),
    '/v1/organizations/{id}/agents': ownList(`${root}/agents`, 'agents'),
    '/v1/tokens': ownList('/v1/tokens', 'tokens'),
    '/v1/me/keys': { path: '/v1/me/keys', table: 'tokens', key: tenant.member_key },
    '/v1/organizations/{id}/teams/{team_id}/members': ownList(
      `${root}/teams/${tenant.team_id}/members`,
      'team_members',
    ),
    '/v1/budgets': ownList('/v1/budgets', 'budgets'),
    '/v1/approval-rules': ownList('/v1/approval-rules', 'approval_rules'),
    '/v1/cost-tickets': ownList('/v1/cost-tickets', 'cost_tickets'),
    '/v1/payments/history': ownList('/v1/payments/history', 'payment_sessions'),
    '/v1/payments/sessions': {
      ...ownList('/v1/payments/sessions', 'payment_sessions'),
      key: tenant.member_key,
    },
    '/v1/wallets/{id}/reservations': ownList(
      `/v1/wallets/${tenant.wallet_id}/reservations`,
      'reservations',
    ),
    '/v1/admin/payments/webhooks': {
      ...adminList('/v1/admin/payments/webhooks', 'payment_events'),
      column: 'received_at',
    },
    '/v1/admin/payments': adminList('/v1/admin/payments', 'payment_sessions'),
    '/v1/admin/gateway-config/versions': adminList(
      '/v1/admin/gateway-config/versions',
      'gateway_configs',
    ),
    '/v1/admin/config-rollouts': adminList('/v1/admin/config-rollouts', 'config_rollouts'),
    '/v1/admin/outbox': adminList('/v1/admin/outbox', 'outbox'),
    '/v1/exports': ownList('/v1/exports', 'exports'),
    '/v1/admin/exports': adminList('/v1/admin/exports', 'exports'),
    '/v1/export-schedules': ownList('/v1/export-schedules', 'export_schedules'),
    '/v1/export-destinations': ownList('/v1/export-destinations', 'export_destinations'),
    '/v1/notice-destinations': ownList('/v1/notice-destinations', 'notice_destinations'),
    '/v1/provider-keys': ownList('/v1/provider-keys', 'provider_keys'),
    '/v1/notice-messages': ownList('/v1/notice-messages', 'notice_messages'),
    '/v1/notices': ownList('/v1/notices', 'notices'),
    '/v1/audit-events': ownList('/v1/audit-events', 'audit_events'),
    '/v1/audit-log': ownList('/v1/audit-log', 'audit_events'),
  };
}

async function addSessions({ db, tenant }: World): Promise<void> {
  const { org_id, member_id: user_id } = tenant;
  for (let n = 0; n < 14; n += 1)
    await sessions.create(db, {
      buyer: { org_id, user_id: n % 2 ? user_id : null, created_by: n % 2 ? user_id : 'key_x' },
      provider: 'payment_provider_a',
      surface: 'console',
      amount_nanos: 10n ** 10n,
      currency: 'USD',
      owner: { owner_type: 'organization' },
      return_url: 'https://shop.example/',
      cancel_url: 'https://shop.example/',
    });
}

async function addWebhooks({ db }: World): Promise<void> {
  for (let n = 0; n < 7; n += 1)
    await paymentEvents.record(db, {
      ...{ provider: 'payment_provider_b', id: `event ${n}`, type: 'captured', topic: 'payment' },
      ...{ payment_session_id: null, order_id: `order ${n}`, capture_id: null, body: '{}' },
    });
}

async function addExports({ db, tenant }: World): Promise<void> {
  for (let n = 0; n < 7; n += 1)
    await db('exports').insert({
      org_id: tenant.org_id,
      kinds: ['ledger'],
      format: 'csv',
      from_time: '2026-06-01',
      to_time: '2026-06-02',
      status: 'canceled',
      snapshot: '1:1:',
      created_by: tenant.member_id,
    });
}

async function addDestinations({ db, tenant }: World): Promise<void> {
  for (let n = 0; n < 7; n += 1) {
    await db('export_schedules').insert({
      org_id: tenant.org_id,
      kinds: ['ledger'],
      format: 'csv',
      every: 'day',
      lag_minutes: 60,
      window_from: new Date(),
      created_by: tenant.member_id,
    });
    await db('export_destinations').insert({
      id: `dest_${n}`,
      org_id: tenant.org_id,
      endpoint: 'https://s3.example.com',
      region: 'eu-central-1',
      bucket: `acme-${n}`,
      credentials: {},
      created_by: tenant.member_id,
    });
    const [issuer] = await db('identity_issuers')
      .insert({
        name: 'Acme',
        issuer: 'https://id.example',
        client_id: `client ${n}`,
        jwks_url: 'https://id.example/jwks',
      })
      .returning('id');
    await db('identities').insert({
      ...{ issuer_id: issuer.id, subject: `subject ${n}` },
      ...{ org_id: tenant.org_id, user_id: tenant.member_id },
    });
  }
}

/** Keys that stand for the member, and people in their team. */
async function addOwn({ db, call, tenant }: World): Promise<void> {
  const { org_id, member_id: user_id, team_id } = tenant;
  for (let n = 0; n < 7; n += 1) {
    await makeKey(db, org_id, { token_type: 'gateway', user_id });
    await makeOwnKey(db, org_id, { provider: `provider ${n}` });
    const person = await call('post', `/v1/organizations/${org_id}/members`, {
      ...{ key: tenant.owner_key, body: { name: `mate ${n}` } },
    });
    const body = { user_id: person.body.user_id };
    await call('post', `/v1/organizations/${org_id}/teams/${team_id}/members`, {
      key: tenant.owner_key,
      body,
    });
  }
}

/** What a destination was told of, each in a message of its own. */
async function addNotices({ db, tenant: { org_id } }: World): Promise<void> {
  await many(
    db,
    `with d as (
       insert into notice_destinations (org_id, name, channel, url, host, kinds, created_by)
       values (:org_id, 'Hook', 'webhook', 'https://example.com', 'example.com', '{payment}', 'test') returning id),
     m as (
       insert into notice_messages (destination_id, kind, notice_count, status)
       select d.id, 'payment', 1, 'delivered' from d, generate_series(1, 7) returning id, destination_id)
     insert into notices (destination_id, org_id, kind, payload, message_id)
     select m.destination_id, :org_id, 'payment', '{}', m.id from m`,
    { org_id },
  );
}

/** More than a part in most lists. */
export async function fillLists(world: World): Promise<void> {
  await addSessions(world);
  await addWebhooks(world);
  await addExports(world);
  await addDestinations(world);
  await addOwn(world);
  await addNotices(world);
  await addWallets(world);
}

/** Empty ones, of people. */
function addWallets({ db, tenant: { org_id } }: World): Promise<unknown> {
  return many(
    db,
    `with u as (insert into users (name) select 'Person ' || n from generate_series(1, 6) as n returning id),
       m as (insert into memberships (org_id, user_id, role) select :org_id, id, 'member' from u returning user_id)
     insert into wallets (org_id, owner_type, owner_user_id, currency) select :org_id, 'user', user_id, 'USD' from m returning id`,
    { org_id },
  );
}
