import { type ErrorCode, isErrorCode, statusOf } from '../../domain/errors';
import type { Route } from '../http/route';

// Which refusals each route gives: those that follow from its row, and its own, which stand here.
// The tests compare every refusal that they meet with this.

/** A refusal as a caller meets it. */
export interface Refusal {
  status: number;
  code: ErrorCode;
}

const amounts = 'amount_too_large exchange_rate_missing';
const transfers = `${amounts} manual_credit_not_allowed insufficient_balance@409`;
const verdicts = `${transfers} already_decided ticket_approved ticket_denied@409 ticket_redeemed ticket_expired@409
  verdict_too_late amount_below_shortfall invalid_field@409 key_budget_exceeded@409 usage_constraint_exceeded@409 session_limit_exceeded
  invalid_credential@409 not_team_member@409 model_not_priced@409 request_canceled idempotency_key_reused
  ticket_owner_differs verdict_not_signed`;
const prices = 'already_exists';
const checkouts = `${amounts} payment_not_configured currency_not_supported target_not_allowed open_checkouts_exceeded
  provider_error idempotency_key_reused payment_state`;
const looks = 'checkout_state_invalid payment_state provider_error';
const refunds = 'payment_state credit_spent refund_refused provider_error amount_too_large';
const reserves = `insufficient_balance amount_too_large model_not_priced exchange_rate_missing key_budget_exceeded
  not_team_member usage_constraint_exceeded session_limit_exceeded session_id_mismatch request_canceled
  idempotency_key_reused open_tickets_exceeded stored_id_unknown invalid_credential overloaded`;
const redeems = `${reserves} ticket_owner_differs ticket_approved ticket_denied ticket_redeemed ticket_expired`;
const exports = 'exports_exceeded export_target_refused export_target_failed export_dir_not_shared';
const rollouts = 'rollout_state invalid_configuration';

/** What each route refuses beyond what follows from its row: `code`, or `code@status`. */
const own: Record<string, string> = {
  'post /v1/wallets/credit': transfers,
  'post /v1/wallets/allocate': transfers,
  'post /v1/wallets/reclaim': transfers,
  'post /v1/admin/wallets/credit': transfers,
  'put /v1/wallets/:id': 'amount_too_large',
  'put /v1/admin/wallets/:id': 'amount_too_large',
  'post /v1/organizations/:id/teams/:team_id/allocate': transfers,
  'post /v1/organizations/:id/teams/:team_id/reclaim': transfers,
  'put /v1/admin/organizations/:id/wallet-settings': 'currency_in_use amount_too_large',
  'post /v1/admin/organizations/:id/archive': 'organization_in_use',
  'post /v1/admin/model-pricing': prices,
  'put /v1/admin/model-pricing/:id': prices,
  'post /v1/admin/price-imports': 'prices_changed import_asks',
  'post /v1/admin/price-imports/:id/undo': 'import_undone',
  'put /v1/admin/exchange-rates': 'currency_in_use',
  'post /v1/admin/settlement-excess/:id': 'already_decided amount_too_large',
  'post /v1/organizations/:id/teams': 'already_exists',
  'patch /v1/organizations/:id/teams/:team_id': 'already_exists',
  'post /v1/organizations/:id/teams/:team_id/members': 'already_exists',
  'post /v1/organizations/:id/agents': 'already_exists',
  'patch /v1/organizations/:id/agents/:agent_id': 'already_exists',
  'post /v1/organizations/:id/members': 'already_exists',
  'patch /v1/organizations/:id/members/:user_id': 'already_exists',
  'put /v1/organizations/:id/members/:user_id': 'last_owner',
  'delete /v1/organizations/:id/members/:user_id': 'last_owner',
  'put /v1/organizations/:id/member-keys': 'amount_too_large',
  'post /v1/tokens': 'already_exists living_keys_exceeded amount_too_large',
  'patch /v1/tokens/:name': 'already_exists key_not_active amount_too_large',
  'post /v1/tokens/:name/rotate': 'key_not_active',
  'post /v1/sessions':
    'invalid_credential permission_denied organization_suspended org_required rate_limit_exceeded already_exists',
  'post /v1/admin/issuers': 'already_exists',
  'put /v1/admin/issuers/:id': 'already_exists',
  'post /v1/me/keys': 'already_exists living_keys_exceeded amount_too_large',
  'patch /v1/me/keys/:name': 'already_exists key_not_active amount_too_large',
  'post /v1/me/keys/:name/rotate': 'key_not_active',
  'post /v1/provider-keys': 'already_exists',
  'post /v1/agents/:id/usage-constraints': 'already_exists amount_too_large',
  'put /v1/agents/:id/usage-constraints/:cid': 'amount_too_large',
  'post /v1/gateway/agents/:id/usage-increment': 'amount_too_large',
  'get /v1/gateway/agents/:id/usage-check': 'amount_too_large',
  'post /v1/budgets': 'already_exists amount_too_large',
  'put /v1/budgets/:id': 'already_exists amount_too_large',
  'post /v1/approval-rules': 'already_exists amount_too_large',
  'put /v1/approval-rules/:id': 'amount_too_large',
  'post /v1/cost-tickets/:id/approve': verdicts,
  'post /v1/cost-tickets/:id/deny': verdicts,
  'post /v1/payments/create-checkout': checkouts,
  'post /v1/payments/confirm-checkout': looks,
  'post /v1/payments/sessions/:id/cancel': 'payment_state provider_error checkout_state_invalid',
  'post /v1/payments/create-order': checkouts,
  'post /v1/payments/capture-order': looks,
  'put /v1/payments/settings': 'amount_too_large currency_not_supported payment_not_configured',
  'put /v1/admin/payments/config': 'currency_not_supported',
  'post /v1/admin/payments/refund': refunds,
  'post /v1/admin/payments/:id/resolve': refunds,
  'post /v1/payments/webhooks/:provider': 'signature_invalid rate_limit_exceeded',
  'post /v1/payments/webhook': 'signature_invalid rate_limit_exceeded',
  'post /v1/notice-destinations/:id/test': 'rate_limit_exceeded',
  'post /v1/notice-messages/:id/replay': 'rate_limit_exceeded',
  'post /v1/gateway/wallets/reserve': reserves,
  'post /v1/gateway/wallets/redeem-ticket': redeems,
  'post /v1/gateway/wallets/settle': `amount_too_large idempotency_key_reused overloaded`,
  'post /v1/gateway/keys/verify': 'version_not_supported',
  'post /v1/gateway/people/verify': 'not_team_member',
  'post /v1/gateway/provider-keys': 'version_not_supported',
  'post /v1/gateway/keys/funds': 'not_found version_not_supported',
  'get /v1/events/stream': 'rate_limit_exceeded overloaded',
  'post /v1/exports': exports,
  'post /v1/admin/exports': exports,
  'post /v1/export-schedules': `${exports}`,
  'post /v1/export-destinations': `${exports} already_exists`,
  'delete /v1/exports/:id': 'export_state',
  'get /v1/exports/:id/files/:n':
    'export_state export_expired export_not_written export_target_failed export_target_refused range_not_satisfiable',
  'put /v1/admin/gateway-config': rollouts,
  'post /v1/admin/config-rollouts': rollouts,
  'post /v1/admin/config-rollouts/:id/pause': rollouts,
  'post /v1/admin/config-rollouts/:id/resume': rollouts,
  'post /v1/admin/config-rollouts/:id/abort': rollouts,
  'post /v1/admin/config-rollouts/:id/promote': rollouts,
  'post /v1/admin/outbox/:id/retry': 'message_not_parked',
  'get /v1/admin/audit': 'ledger_broken',
};

/** Every refusal of a route, by status and code. */
export function refusalsOf(row: Route): Refusal[] {
  const named = `${row.method} ${row.path}`;
  const all = [...fromRow(row), ...(own[named] ?? '').split(/\s+/)].filter((one) => one !== '');
  const distinct = new Map(all.map((text) => [text, refusalIn(text)]));
  return [...distinct.values()].sort(
    (a, b) => a.status - b.status || (a.code < b.code ? -1 : Number(a.code > b.code)),
  );
}

function refusalIn(text: string): Refusal {
  const [code = '', status] = text.split('@');
  if (!isErrorCode(code)) throw new Error(`${code} is no code of domain/errors.ts.`);
  return { code, status: status === undefined ? statusOf(code) : Number(status) };
}

/** What follows from who may call a route, and from what it takes. */
function fromRow(row: Route): string[] {
  const { access, path, input, is_idempotent, is_raw, method } = row;
  const is_public = access.label === 'public';
  const of_gateways = access.label === 'control_plane';
  const names_org = 'org_id' in input.shape || path.includes('/organizations/:id');
  const names_object = /:\w/.test(path) || Object.keys(input.shape).some((one) => /_id$/.test(one));
  const has_body = method !== 'get' && !is_raw;
  return [
    'invalid_request',
    'invalid_field unknown_field',
    ...(is_public ? [] : ['invalid_credential permission_denied organization_suspended']),
    ...(of_gateways ? ['browser_not_allowed version_not_supported'] : []),
    ...(of_gateways ? [] : ['rate_limit_exceeded']),
    ...(names_org || !is_public ? ['org_required'] : []),
    ...(names_org || names_object || !is_public ? ['not_found'] : []),
    ...(has_body ? ['invalid_json invalid_request@408 unsupported_media_type'] : []),
    ...(method === 'get' ? [] : ['payload_too_large']),
    ...(is_raw ? ['invalid_request@408'] : []),
    ...(is_idempotent ? ['idempotency_key_reused'] : []),
    'internal_error unavailable',
  ].flatMap((codes) => codes.split(' '));
}
