import { randomUUID } from 'node:crypto';
import * as issuers from '../../domain/people/issuers';
import * as sessions from '../../domain/people/sessions';
import { type Db, one } from '../../domain/sql';
import type { CallApi, Tenant } from '../support/api';
import { makeRollout, plainConfig, reportGateway, stagedVersion } from './gateways/making';

/** A change through a route of people. */
export interface Change {
  body?: object | (() => Promise<object>);
  /** Makes what the route changes; its id takes the place of the last name in the path. */
  of?: () => Promise<string>;
  /** The actions of the audit events, in any order. */
  actions: string[];
}

/** Who makes what the changes are about. */
interface Makers {
  db: Db;
  call: CallApi;
  tenant: Tenant;
  platform: string;
}

/** Every route of people that changes something, with a change and what is recorded of it. */
export function changesOf({ db, call, tenant, platform }: Makers): Record<string, Change> {
  const base = `/v1/organizations/${tenant.org_id}`;
  const unique = (label: string) => `${label} ${randomUUID()}`;

  const made = async (path: string, body: object, key = tenant.owner_key): Promise<string> => {
    const answer = await call('post', path, { key, body });
    expect(answer.status).toBe(201);
    return answer.body.user_id ?? answer.body.id;
  };

  const newMember = () => made(`${base}/members`, { name: 'Ann', role: 'member' });
  const newTeamMember = async () => {
    const user_id = await newMember();
    await made(`${base}/teams/${tenant.team_id}/members`, { user_id });
    return user_id;
  };
  const newKey = async () => {
    const name = unique('key');
    await made('/v1/tokens', { name, token_type: 'access' });
    return name;
  };
  const newSession = async () => {
    const person = { org_id: tenant.org_id, user_id: await newMember(), scopes: [] };
    return db.transaction((trx) => sessions.create(trx, person));
  };
  const issuer = () => ({
    name: 'Acme',
    issuer: 'https://id.example',
    client_id: randomUUID(),
    jwks_url: 'https://id.example/jwks',
  });
  const newIdentity = async () => {
    const blank = { org_id: null, authorization_url: null, token_url: null, groups_claim: null };
    const settings = { subject: 'bound' as const, email_domains: [], group_grants: [] };
    const { id } = await issuers.create(db, { ...issuer(), ...blank, ...settings });
    const { org_id, member_id } = tenant;
    const bound = await one<{ id: string }>(
      db,
      `insert into identities (issuer_id, org_id, subject, user_id) values (:id, :org_id, :id, :member_id) returning id`,
      { id, org_id, member_id },
    );
    return bound.id;
  };
  const price = () => ({ provider: 'openai', model: unique('model'), input_per_1m: 1 });
  const newPrice = () => made('/v1/admin/model-pricing', price(), platform);
  const cap = {
    constraint_type: 'cost',
    provider: 'openai',
    model_pattern: '*',
    max_value: 1,
    interval: 'day',
    enforcement_mode: 'reject',
  };
  const caps = `/v1/agents/${tenant.agent_id}/usage-constraints`;
  const newCap = () => made(caps, cap);
  const provider = {
    enabled: true,
    secret_key: `sk_${randomUUID()}`,
    webhook_secret: `whsec_${randomUUID()}`,
  };

  return {
    'put /v1/wallets/:id': {
      body: { low_balance_threshold: 5 },
      of: async () => tenant.wallet_id,
      actions: ['wallet.changed'],
    },
    'put /v1/admin/wallets/:id': {
      body: { low_balance_threshold: 6 },
      of: async () => tenant.wallet_id,
      actions: ['wallet.changed'],
    },
    'put /v1/admin/organizations/:id/wallet-settings': {
      body: { reserve_buffer_pct: 7 },
      actions: ['organization.changed'],
    },
    'post /v1/admin/model-pricing': { body: price(), actions: ['price.created'] },
    'put /v1/admin/model-pricing/:id': {
      body: { input_per_1m: 2 },
      of: newPrice,
      actions: ['price.created'],
    },
    'delete /v1/admin/model-pricing/:id': { of: newPrice, actions: ['price.ended'] },
    'put /v1/admin/exchange-rates': {
      body: { rates: { EUR: 0.9 } },
      actions: ['exchange_rate.created'],
    },
    'post /v1/admin/organizations': { body: { name: 'Acme' }, actions: ['organization.created'] },
    'post /v1/organizations/:id/teams': { body: { name: unique('T') }, actions: ['team.created'] },
    'delete /v1/organizations/:id/teams/:team_id': {
      of: () => made(`${base}/teams`, { name: unique('T') }),
      actions: ['team.ended'],
    },
    'post /v1/organizations/:id/teams/:team_id/members': {
      body: async () => ({ user_id: await newMember() }),
      of: async () => tenant.team_id,
      actions: ['team_member.created'],
    },
    'put /v1/organizations/:id/teams/:team_id/members/:user_id': {
      body: { role: 'admin' },
      of: newTeamMember,
      actions: ['team_member.changed'],
    },
    'delete /v1/organizations/:id/teams/:team_id/members/:user_id': {
      of: newTeamMember,
      actions: ['team_member.ended'],
    },
    'post /v1/organizations/:id/members': { body: { name: 'Ann' }, actions: ['member.created'] },
    'put /v1/organizations/:id/members/:user_id': {
      body: { role: 'admin' },
      of: newMember,
      actions: ['member.changed'],
    },
    'delete /v1/organizations/:id/members/:user_id': { of: newMember, actions: ['member.ended'] },
    'post /v1/organizations/:id/agents': {
      body: { name: unique('A') },
      actions: ['agent.created'],
    },
    'delete /v1/organizations/:id/agents/:agent_id': {
      of: () => made(`${base}/agents`, { name: unique('A') }),
      actions: ['agent.ended'],
    },
    'post /v1/tokens': {
      body: { name: unique('k'), token_type: 'gateway' },
      actions: ['key.created'],
    },
    'delete /v1/tokens/:name': { of: newKey, actions: ['key.ended'] },
    'post /v1/tokens/:name/rotate': { of: newKey, actions: ['key.rotated'] },
    'delete /v1/sessions': {
      body: async () => ({ user_id: (await newSession()).user_id }),
      actions: ['session.ended'],
    },
    'delete /v1/sessions/:id': {
      of: async () => (await newSession()).id,
      actions: ['session.ended'],
    },
    'post /v1/admin/issuers': { body: issuer(), actions: ['identity_issuer.created'] },
    'put /v1/admin/issuers/:id': {
      body: { name: 'Another' },
      of: () => made('/v1/admin/issuers', issuer(), platform),
      actions: ['identity_issuer.changed'],
    },
    'delete /v1/admin/issuers/:id': {
      of: () => made('/v1/admin/issuers', issuer(), platform),
      actions: ['identity_issuer.ended'],
    },
    'post /v1/organizations/:id/members/:user_id/invitations': {
      of: newMember,
      actions: ['invitation.created'],
    },
    'delete /v1/organizations/:id/members/:user_id/identities/:identity_id': {
      of: newIdentity,
      actions: ['identity.ended'],
    },
    'post /v1/agents/:id/usage-constraints': { body: cap, actions: ['usage_constraint.created'] },
    'put /v1/agents/:id/usage-constraints/:cid': {
      body: { max_value: 2 },
      of: newCap,
      actions: ['usage_constraint.changed'],
    },
    'delete /v1/agents/:id/usage-constraints/:cid': {
      of: newCap,
      actions: ['usage_constraint.ended'],
    },
    'put /v1/payments/settings': {
      body: { max_topup_amount: 500 },
      actions: ['payment_settings.created'],
    },
    'put /v1/admin/payments/config': {
      body: { payment_provider_b: provider, active_provider: 'payment_provider_b' },
      actions: ['payment_provider.created', 'payment_config.created'],
    },
    'put /v1/admin/gateway-config': {
      body: { config: plainConfig() },
      actions: ['gateway_config.created'],
    },
    'post /v1/admin/config-rollouts': {
      body: async () => {
        await reportGateway(db);
        return { version: await stagedVersion(db) };
      },
      actions: ['config_rollout.created'],
    },
    'post /v1/admin/config-rollouts/:id/pause': {
      of: () => makeRollout(db),
      actions: ['config_rollout.paused'],
    },
    'post /v1/admin/config-rollouts/:id/resume': {
      of: () => makeRollout(db, true),
      actions: ['config_rollout.resumed'],
    },
    'post /v1/admin/config-rollouts/:id/abort': {
      of: () => makeRollout(db),
      actions: ['config_rollout.aborted'],
    },
    'post /v1/admin/config-rollouts/:id/promote': {
      of: () => makeRollout(db),
      actions: ['config_rollout.promoted'],
    },
    'post /v1/admin/outbox/:id/retry': {
      of: () => parkedMessage(db, tenant.org_id),
      actions: ['outbox.retried'],
    },
    'delete /v1/admin/gateway-config': { actions: ['gateway_config.created'] },
    'post /v1/export-schedules': { body: schedule, actions: ['export_schedule.created'] },
    'delete /v1/export-schedules/:id': {
      of: () => made('/v1/export-schedules', schedule),
      actions: ['export_schedule.ended'],
    },
    'delete /v1/export-destinations/:id': {
      of: () => destination(db, tenant.org_id),
      actions: ['export_destination.ended'],
    },
  };
}

const schedule = { kinds: ['ledger'], every: 'day' };

/** A bucket that nobody writes to. */
async function destination(db: Db, org_id: string): Promise<string> {
  const id = `dest_${randomUUID()}`;
  await db('export_destinations').insert({
    ...{ id, org_id, endpoint: 'https://s3.example.com', region: 'eu-central-1', bucket: 'acme' },
    credentials: {},
    created_by: 'key_x',
  });
  return id;
}

/** A message that was given up; nobody sends it before it is due, in a year. */
async function parkedMessage(db: Db, org_id: string): Promise<string> {
  const { id } = await one<{ id: bigint }>(
    db,
    `insert into outbox (org_id, workflow, workflow_id, input, parked_at, attempts, next_at)
     values (:org_id, 'costTicket', :workflow_id, '{}', clock_timestamp(), 20, clock_timestamp() + interval '1 year') returning id`,
    { org_id, workflow_id: `tkt_${randomUUID()}` },
  );
  return String(id);
}

/** The path of a route with an id in the place of its last name, and the tenant's in the others. */
export function pathOf(path: string, id: string | undefined, tenant: Tenant): string {
  const last = path.match(/:\w+/g)?.at(-1);
  const filled = last && id !== undefined ? path.replace(last, encodeURIComponent(id)) : path;
  return filled
    .replace('/organizations/:id', `/organizations/${tenant.org_id}`)
    .replace('/agents/:id', `/agents/${tenant.agent_id}`)
    .replace(':team_id', tenant.team_id)
    .replace(':user_id', tenant.member_id);
}
