// Values and bodies for people who try the routes on the page. Ids stand for those of their own
// organization.

import { examplePlan } from './price-help';

const org_id = 'org_01a220a951b44c42b8195c6a01dad198';
const user_id = 'user_01a220a951b54f1c9d2a7c6a01dad199';
const team_id = 'team_01a220a951b64a0a8c3b5c6a01dad19a';
const request_id = '3f0c2c1e-5a77-4a5e-9d55-0c6a01dad19b';
const reservation_id = 'res_01a220a951b84b1b9e4c5c6a01dad19c';
const request_body_hash = `sha256:${'0'.repeat(64)}`;
const model = { provider: 'openai', model: 'gpt-4o-mini' };

const reserve = { org_id, ...model, estimated_prompt_tokens: 200, request_body_hash, request_id };
const settle = {
  org_id,
  reservation_id,
  outcome: 'completed',
  usage: { prompt_tokens: 180, completion_tokens: 60 },
  usage_source: 'upstream',
};
const extend = { items: [{ org_id, reservation_id }] };
const transfer = { team_id, amount: 10, note: 'June' };
const credit = { target_wallet_owner_type: 'organization', amount: 50, description: 'June' };

const pages = {
  return_url: 'https://console.example.com/return',
  cancel_url: 'https://console.example.com/cancel',
};
const payment_session_id = 'pay_01a220a951b74a2a9f5d5c6a01dad19e';

const period = {
  kinds: ['statement', 'ledger', 'requests'],
  from: '2026-06-01',
  to: '2026-07-01',
  format: 'csv',
};

/** By field, for routes that need no more than their required ones. */
export const values: Record<string, unknown> = {
  org_id,
  user_id,
  team_id,
  request_id,
  request_body_hash,
  ...model,
  name: 'Research',
  role: 'billing_admin',
  ticket_id: 'ticket_01a220a951b74a2a9f5d5c6a01dad19d',
  key: 'svc_gk_...',
  constraint_type: 'cost',
  model_pattern: 'gpt-4o*',
  max_value: 5,
  interval: 'day',
  enforcement_mode: 'reject',
  owner_type: 'organization',
  limit: 100,
  window: 'month',
  max_per_call: 0.05,
  max_per_day: 20,
  verdict: 'approve',
  ticket_ids: ['ticket_01a220a951b74a2a9f5d5c6a01dad19d'],
};

/** By route, for routes whose useful body has more fields. */
export const bodies: Record<string, object> = {
  'post /v1/wallets/credit': credit,
  'post /v1/admin/wallets/credit': { org_id, ...credit },
  'post /v1/wallets/allocate': transfer,
  'post /v1/wallets/reclaim': transfer,
  'put /v1/wallets/:id': { low_balance_threshold: 5 },
  'put /v1/admin/wallets/:id': { low_balance_threshold: 5 },
  'put /v1/admin/organizations/:id/wallet-settings': {
    reserve_buffer_pct: 10,
    low_balance_threshold: 5,
  },
  'post /v1/admin/organizations': { name: 'Acme', currency: 'USD' },
  'post /v1/organizations/:id/members': {
    name: 'Ada Member',
    email: 'ada@example.com',
    role: 'member',
  },
  'post /v1/organizations/:id/members/bulk': {
    members: [
      { name: 'Ada Member', email: 'ada@example.com', teams: [{ team_id, role: 'admin' }] },
      { name: 'Bo Member', email: 'bo@example.com', teams: [{ team_id }] },
    ],
  },
  'patch /v1/organizations/:id/members/:user_id': { name: 'Ada Lovelace' },
  'put /v1/organizations/:id/teams/:team_id/members/:user_id': { role: 'admin' },
  'post /v1/organizations/:id/teams/:team_id/members': { user_id, role: 'member' },
  'post /v1/organizations/:id/teams/:team_id/allocate': { user_id, amount: 10, note: 'June' },
  'post /v1/organizations/:id/teams/:team_id/reclaim': { user_id, amount: 10, note: 'June' },
  'post /v1/admin/organizations/:id/suspend': { reason: 'Unpaid since May' },
  'put /v1/organizations/:id/member-keys': {
    enabled: true,
    max_keys: 3,
    max_budget: 20,
    allowed_models: ['gpt-4o*'],
    max_days: 90,
  },
  'post /v1/me/keys': { name: 'laptop', max_budget: 5 },
  'patch /v1/me/keys/:name': { max_budget: 2 },
  'post /v1/me/keys/:name/rotate': { overlap_seconds: 3_600 },
  'patch /v1/tokens/:name': { max_budget: 20, rpm: 60 },
  'post /v1/admin/model-pricing': { ...model, input_per_1m: 0.15, output_per_1m: 0.6 },
  'put /v1/admin/model-pricing/:id': { output_per_1m: 0.7 },
  'post /v1/admin/price-imports/diff': { plan: examplePlan },
  'post /v1/admin/price-imports': { plan: examplePlan },
  'put /v1/admin/exchange-rates': { rates: { EUR: 0.92 } },
  'post /v1/tokens': {
    name: 'ci',
    token_type: 'gateway',
    allowed_models: [model.model],
    max_budget: 5,
  },
  'post /v1/tokens/:name/rotate': { overlap_seconds: 3_600 },
  'post /v1/admin/settlement-excess/:id': { action: 'drop', note: 'A fault of the provider' },
  'post /v1/budgets': {
    owner_type: 'user',
    owner_id: user_id,
    limit: 20,
    window: 'month',
    on_exceed: 'ticket',
  },
  'put /v1/budgets/:id': { limit: 30 },
  'put /v1/approval-rules/:id': { max_per_day: 30 },
  'post /v1/cost-tickets/:id/approve': { note: 'Approved for June' },
  'post /v1/cost-tickets/:id/deny': { reason: 'Use a smaller model' },
  'post /v1/payments/create-checkout': {
    amount: 50,
    target_wallet_owner_type: 'organization',
    surface: 'console',
    ...pages,
  },
  'post /v1/payments/confirm-checkout': {
    payment_session_id,
    provider: 'payment_provider_a',
    provider_session_token: '5O190127TN364715T',
    checkout_state: 'q2Y0...',
  },
  'post /v1/admin/payments/refund': { payment_session_id, reason: 'Paid twice' },
  'post /v1/admin/payments/:id/resolve': { action: 'credit', reason: 'The buyer paid in cents' },
  'put /v1/payments/settings': {
    min_topup_amount: 5,
    max_topup_amount: 500,
    allowed_topup_amounts: [10, 50, 100],
    return_origins: ['https://console.example.com'],
  },
  // Without credentials, so that a try takes no real ones away.
  'put /v1/admin/payments/config': {
    payment_provider_b: { supported_currencies: ['EUR', 'USD'] },
  },
  'post /v1/payments/create-order': { amount: 50, ...pages },
  'post /v1/payments/capture-order': { order_id: '5O190127TN364715T' },
  'put /v1/agents/:id/usage-constraints/:cid': { max_value: 10 },
  'put /v1/admin/gateway-config': {
    config: {
      providers: {
        targets: [
          {
            id: 'openai',
            provider: 'openai',
            shape: 'openai',
            base_url: 'https://api.openai.com/v1',
            api_key_env: 'OPENAI_API_KEY',
            models: ['gpt-4o-mini'],
          },
        ],
      },
    },
    note: 'Without gpt-4o',
  },
  'post /v1/admin/config-rollouts': { version: 7, stages: [1, '25%', '100%'], soak_s: 60 },
  'post /v1/gateway/config/report': {
    id: 'a random id',
    host: 'gateway-1',
    config_version: 3,
    config_hash: '1f0c2c1e5a774a5e',
    refused_version: null,
    error: null,
    started_at: '2027-01-31T00:00:00Z',
    group: 'default',
    state: 'running',
    in_flight: 2,
    held: 0,
    counts: { finished: 812, own_5xx: 0, upstream_5xx: 1, refused: 3, lost_reports: 0 },
  },
  'post /v1/exports': period,
  'post /v1/export-destinations': {
    endpoint: 'https://s3.eu-central-1.amazonaws.com',
    region: 'eu-central-1',
    bucket: 'acme-exports',
    access_key_id: 'AKIA...',
    secret_access_key: 'as-the-store-shows-it',
  },
  'post /v1/admin/exports': period,
  'post /v1/export-schedules': { kinds: ['statement', 'requests'], every: 'month', format: 'csv' },
  'post /v1/gateway/keys/verify': { key: 'svc_gk_...' },
  'post /v1/gateway/keys/funds': { org_id: 'org_...', key_id: 'key_...', user_id: 'usr_...' },
  'post /v1/gateway/wallets/reserve': reserve,
  'post /v1/gateway/wallets/settle': settle,
  'post /v1/gateway/wallets/extend': extend,
  'post /v1/gateway/events': {
    items: [
      {
        id: 'evt_01a220a951b90000000000000000000a',
        org_id,
        request_id,
        type: 'request.completed',
        payload: { model: model.model, status: 200 },
      },
    ],
  },
  'post /v1/gateway/wallets/batch': {
    items: [
      { id: '1', op: 'reserve', body: reserve },
      { id: '2', op: 'settle', body: settle },
    ],
  },
};
