import { randomUUID } from 'node:crypto';
import { type Db, one } from '../../domain/sql';
import type { CallApi, Tenant } from '../support/api';
import { type Change, changesOfKeys } from './changes-of-keys';
import { changesOfNotices } from './changes-of-notices';
import { changesOfOrganizations } from './changes-of-organizations';
import { changesOfPrices } from './changes-of-prices';
import { changesOfProviderKeys } from './changes-of-provider-keys';
import { makeRollout, plainConfig, reportGateway, stagedVersion } from './gateways/making';
import { identityChanges } from './identity/changes';

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
  const newTeam = () => made(`${base}/teams`, { name: unique('T') });
  const newAgent = () => made(`${base}/agents`, { name: unique('A') });
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
  const budget = { owner_type: 'organization', limit: 1, window: 'hour' };
  const newBudget = async () => {
    const user_id = await newMember();
    return made('/v1/budgets', { ...budget, owner_type: 'user', owner_id: user_id });
  };
  const rule = { name: 'Small calls', max_per_call: 1, max_per_day: 20 };
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
    'patch /v1/organizations/:id': {
      body: async () => ({ name: unique('Org') }),
      actions: ['organization.changed'],
    },
    'post /v1/organizations/:id/teams': { body: { name: unique('T') }, actions: ['team.created'] },
    'delete /v1/organizations/:id/teams/:team_id': {
      of: newTeam,
      actions: ['team.ended'],
    },
    'patch /v1/organizations/:id/teams/:team_id': {
      body: { name: unique('T') },
      of: newTeam,
      actions: ['team.changed'],
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
    'post /v1/organizations/:id/members/bulk': {
      body: { members: [{ name: 'Ann', teams: [{ team_id: tenant.team_id }] }] },
      actions: ['member.created', 'team_member.created'],
    },
    'patch /v1/organizations/:id/members/:user_id': {
      body: { name: 'Ann Other' },
      of: newMember,
      actions: ['member.changed'],
    },
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
      of: newAgent,
      actions: ['agent.ended'],
    },
    'patch /v1/organizations/:id/agents/:agent_id': {
      body: { name: unique('A') },
      of: newAgent,
      actions: ['agent.changed'],
    },
    'delete /v1/tokens/:name': { of: newKey, actions: ['key.ended'] },
    'post /v1/tokens/:name/rotate': { of: newKey, actions: ['key.rotated'] },
    ...identityChanges({ db, tenant, platform, made, newMember }),
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
    'post /v1/budgets': {
      body: async () => ({ ...budget, owner_type: 'user', owner_id: await newMember() }),
      actions: ['budget.created'],
    },
    'put /v1/budgets/:id': { body: { limit: 2 }, of: newBudget, actions: ['budget.changed'] },
    'delete /v1/budgets/:id': { of: newBudget, actions: ['budget.ended'] },
    'post /v1/approval-rules': { body: rule, actions: ['approval_rule.created'] },
    'put /v1/approval-rules/:id': {
      body: { max_per_call: 0.5 },
      of: () => made('/v1/approval-rules', rule),
      actions: ['approval_rule.changed'],
    },
    'delete /v1/approval-rules/:id': {
      of: () => made('/v1/approval-rules', rule),
      actions: ['approval_rule.ended'],
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
    'delete /v1/exports/:id': {
      of: () => runningExport(db, tenant.org_id),
      actions: ['export.canceled'],
    },
    'delete /v1/export-destinations/:id': {
      of: () => destination(db, tenant.org_id),
      actions: ['export_destination.ended'],
    },
    ...changesOfKeys({ call, tenant }, newKey),
    ...changesOfNotices(db, tenant),
    ...changesOfOrganizations(call, platform),
    ...changesOfPrices(call, platform),
    ...changesOfProviderKeys(db, tenant),
  };
}

const schedule = { kinds: ['ledger'], every: 'month' };

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

/** An export that nobody writes. */
async function runningExport(db: Db, org_id: string): Promise<string> {
  const { id } = await one<{ id: string }>(
    db,
    `insert into exports (org_id, kinds, format, from_time, to_time, status, snapshot, created_by, schedule_id)
     values (:org_id, '{ledger}', 'csv', '2026-06-01', '2026-06-02', 'queued', pg_current_snapshot(), 'key_x', null) returning id`,
    { org_id },
  );
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
