import { budgetHelp } from './budget-help';
import * as examples from './examples';
import { identityBodies, identityHelp } from './identity-help';
import { noticeBodies, noticeHelp, noticeNouns } from './notice-help';
import { priceHelp } from './price-help';
import { providerKeyBodies, providerKeyHelp } from './provider-key-help';
import { spendHelp } from './spend-help';

type Schema = Record<string, unknown>;

// The meaning of each field of requests and answers: one name means one thing. A schema that says
// more in its own `describe` keeps its description.
const help: Record<string, string> = {
  ...identityHelp,
  ...noticeHelp,
  ...providerKeyHelp,
  // People and objects.
  id: 'Id of the thing itself.',
  org_id:
    "Id of the organization. Platform admins name it; others may leave it out, theirs is the key's own.",
  user_id: 'Id of a member: GET /v1/organizations/{id}/members.',
  team_id: 'Id of a team: GET /v1/organizations/{id}/teams.',
  agent_id: 'Id of an agent: GET /v1/organizations/{id}/agents.',
  key_id: 'Id of a gateway key; it stays when the key is rotated.',
  secret_id: "Id of a key's present value; it changes when the key is rotated.",
  wallet_id: 'Id of a wallet: GET /v1/wallets.',
  reservation_id: 'Id of a reservation, as a reserve answers it.',
  ticket_id: 'Id of a cost ticket, as a refused reserve answers it.',
  traceparent:
    'The W3C trace context of the call, where it is traced: what it causes here joins that trace.',
  identity_proof_method:
    'How the gateway knows who called; it stands on the spans of the trace and on the events of the call.',
  cid: 'Id of a usage constraint.',
  name: 'A name for people. Names of teams, agents and living keys are unique in their organization.',
  email: "The person's e-mail address.",
  issuer: "The iss of the person's JWT; goes with subject. Platform admins only.",
  subject: "The sub of the person's JWT; goes with issuer.",
  role: 'owner: everything of the organization. admin: agents, tokens, members, events. billing_admin: money. member: own reads.',
  // Lists.
  page: 'Which page, from 1.',
  per_page: 'Rows a page, 200 at most.',
  as_of:
    'Leaves out rows made after this time. Give the same time with each page, and pages do not shift while rows are added.',
  seq_max:
    'Leaves out entries above this seq. Give the total of the first page with each further one, and pages do not shift.',
  total: 'All rows of the list.',
  has_more: 'There is a further page.',
  status: 'The state it is in.',
  type: 'The kind.',
  q: 'Words; each begins a word of what is found, whatever its case: of names, and of members also of their e-mail addresses.',
  sort: 'The order; a minus in front runs it backwards.',
  next: 'The cursor of the next part; null at the end.',
  group: 'The GATEWAY_GROUP of gateways; default if they name none.',
  // Events.
  action: 'What the event did, as its kind names it.',
  since: 'From this time on.',
  until: 'Before this time.',
  limit: 'Rows an answer, 200 at most.',
  cursor:
    'Where the answer before ended; it gives the next rows. Lists with pages take first to begin: their answers then have next, and count nothing.',
  trace_label: "The call's X-Request-Id, by which logs find it.",
  payload: "The event's own facts.",
  // Money.
  amount: 'Major units of the currency, at most 15 significant digits and 9 decimals.',
  currency: 'ISO 4217 code, such as USD.',
  description: 'Words for people, shown in the ledger.',
  note: 'Words for people, kept with the entry or verdict.',
  reason: 'Words for whoever asked, kept with the ticket.',
  target_wallet_owner_type: 'Whose wallet: that of the organization, of a team or of a user.',
  target_wallet_owner_id: 'The id of that team or user. Not needed for the organization.',
  reserve_buffer_pct: 'Per cent that a hold is above its estimate.',
  low_balance_threshold:
    "A wallet that falls below it causes one event wallet.balance_low. A wallet's null: the organization's setting.",
  reservation_ttl_seconds: 'How long a hold lives without being extended.',
  ticket_ttl_seconds: 'How long a cost ticket stays open.',
  default_max_completion_tokens:
    'Completion tokens to hold for if the request has no limit: of each choice, and no more than the price allows.',
  manual_credit:
    "platform_only: the organization's own credits are transfers from its wallet; only platform admins add money.",
  wallet_user_topup_enabled: 'false: only org:billing may create checkouts.',
  ...budgetHelp,
  ...spendHelp,
  balance_after: "The wallet's balance after this entry or call.",
  ...priceHelp,
  // Payments.
  payment_session_id: 'Id of a payment session, as create-checkout answers it.',
  surface: 'Where the buyer is: console, or chat, which tops up the organization only.',
  return_url:
    "Where the buyer is sent after paying: an address on one of the organization's return_origins.",
  cancel_url: 'Where the buyer is sent after giving up: likewise.',
  approval_url: "The provider's page: send the buyer there.",
  checkout_state: 'What create-checkout answered; it binds the session to its buyer.',
  provider_session_token: 'The token that the provider added to return_url: its query value token.',
  provider_order_id: "The provider's id of the checkout.",
  provider_capture_id: "The provider's id of the money taken.",
  from_date: 'Made at or after this time; a bare date is midnight UTC.',
  to_date: 'Made before this time; a bare date is midnight UTC.',
  allow_negative: 'Refund a spent top-up too: its wallet goes into debt.',
  order_id: 'The id that payment_provider_a gave the order.',
  active_provider: 'The provider of new checkouts; null: none, so nobody can top up.',
  available_providers: 'Providers that are enabled and configured.',
  payment_provider_configured: 'The active provider is enabled and configured.',
  currency_supported_by_active_provider: "The active provider takes the organization's currency.",
  allowed_topup_amounts: 'Amounts to offer, each between min_topup_amount and max_topup_amount.',
  min_topup_amount: 'The least that may be topped up at once.',
  max_topup_amount: 'The most that may be topped up at once.',
  topup_target_scopes: 'Whose wallets may be topped up.',
  return_origins:
    'Where a buyer may be sent back to: origins such as https://console.example.com, exactly; http on this machine only.',
  payment_provider_a: 'PayPal.',
  payment_provider_b: 'Stripe.',
  enabled: 'false stops new checkouts; those that are under way go on.',
  supported_currencies: 'Currencies it takes. Before the first change: all it can.',
  base_url: "The provider's address; before the first change its live one.",
  configured: 'It has its credentials and its webhook secret. Secrets are never answered.',
  client_id: 'Client id of the PayPal app. Write-only.',
  client_secret: 'Secret of the PayPal app. Write-only.',
  webhook_id:
    'Id of the PayPal webhook, by which its signatures are checked. Write-only; the one before stays good for 72 hours.',
  secret_key: 'Secret key of Stripe: sk_... Write-only.',
  webhook_secret:
    'Signing secret of the Stripe webhook: whsec_... Write-only; the one before stays good for 72 hours.',
  previous_webhook_secret_until:
    'Until when the webhook secret before the present one is good; null where none was replaced lately.',
  error_code:
    'provider_unavailable, not_approved, declined, amount_mismatch, canceled_by_buyer, session_expired or provider_error.',
  // Keys.
  token_type: 'access: svc_ak_, for this API. gateway: svc_gk_, for model traffic.',
  scopes: "What an access key may do, within the maker's own scopes. Gateway keys carry none.",
  allowed_models:
    'Gateway keys: the models it may call; a star at the end stands for any end (gpt-4o*). null or absent: all; []: none.',
  max_budget:
    'Gateway keys: what it may spend, holds included: in budget_window or, without one, in its life.',
  expires_at: 'When it ends.',
  rpm: "Gateway keys: requests a minute of this key at each gateway; null: as the gateway's configuration says of every key.",
  tpm: "Gateway keys: tokens a minute of this key; null: as the gateway's configuration says.",
  max_parallel_requests:
    "Gateway keys: requests of this key at the same time; null: as the gateway's configuration says.",
  max_keys: 'So many living keys of their own making may a person have.',
  max_days: 'A key ends within so many days; null: it may live on.',
  overlap_seconds: 'How long the old value goes on working.',
  key: 'The value of a key.',
  // Caps on agents.
  constraint_type: 'cost: money in organization currency. responses: a number of answers.',
  model_pattern: 'The models it counts; one * may end it.',
  max_value: 'The cap: an amount, or a number of answers.',
  interval: 'The calendar window in UTC; a week begins on Monday.',
  enforcement_mode: 'reject: refused above the cap. warn: passed with a warning.',
  // Reserve, settle, redeem.
  estimated_prompt_tokens: 'Input tokens of the request, estimated.',
  max_completion_tokens:
    'The most output tokens the request allows, of all its choices; null: the default.',
  choices: 'How often the default is held for: once for each choice. A cap is for all of them.',
  request_body_hash:
    "sha256: and 64 hex digits of the client's bytes; binds a ticket to its request.",
  estimated_cost: 'The estimate in organization currency.',
  family: 'The kind of call, such as chat_completions.',
  is_brought: 'The client named the ticket: it pays for this call or for none.',
  units: 'What is priced by other units than tokens.',
  characters: 'Characters, for prices by character.',
  seconds: 'Seconds of audio, for prices by minute.',
  fallbacks: 'Further models the call may run on; the dearest is held.',
  session_limits: 'Limits of the session; they need session_id.',
  max_actions: 'Calls that a session may make.',
  stored_ids:
    'Things that a provider keeps: those that a request names, which must be its own, or those that an answer has made.',
  providers: 'Who may serve the request, in order: one of them must keep all that it names.',
  kind: 'The kind of a stored thing: response, item, container and the like.',
  max_cost_usd: 'USD that a session may cost.',
  wait_ms: 'How long to wait for money before answering 402, at most 30000.',
  outcome:
    'completed: charged by usage. failed or canceled: charged for what was used, which may be nothing.',
  usage: 'What was used. Required unless canceled.',
  usage_source: 'upstream: as the provider said. estimated: as counted here.',
  prompt_tokens: 'All input tokens; cached, cache-write and audio included.',
  completion_tokens: 'All output tokens; reasoning and audio included.',
  cached_tokens: 'Input tokens read from a cache.',
  cache_write_tokens: 'Input tokens written to a cache.',
  cache_life: 'How long a cache is to hold that the request marks; absent: it marks none.',
  cache_write_1h_tokens: 'Input tokens written to a cache for an hour.',
  reasoning_tokens: 'Output tokens of unseen thought.',
  audio_input_tokens: 'Input tokens of audio. Of a reserve: of its prompt.',
  audio_output_tokens: 'Output tokens of audio. Of a reserve: of its completion, at most.',
  tool_calls: 'Tool calls that the provider made and charges for, of no kind below.',
  web_searches: 'Web searches that ran, or may.',
  file_searches: 'Searches in files that ran, or may.',
  containers: 'Containers that code ran in, or may.',
  pages: 'Pages that are billed.',
  image_input_tokens: 'Those of prompt_tokens that are of pictures.',
  image_output_tokens:
    'Of usage: those of completion_tokens that are of pictures. Of a reserve: beyond its completion.',
  video_input_tokens: 'Those of prompt_tokens that are of video.',
  video_output_tokens: 'Those of completion_tokens that are of video.',
  items: 'What to do, each with its own answer.',
  op: 'Which of the single routes it is.',
  body: 'What that route takes.',
  cost: 'What it cost, in organization currency.',
  // Exports.
  kinds: 'What to write; events need events:read too, and audit_log org:members.',
  from: 'From this time on.',
  to: 'Before this time, which must not lie in the future; at most 13 months after from.',
  format: 'jsonl and csv are compressed with gzip.',
  bucket: 'Name of the bucket.',
  n: 'Number of the file; 0 is the manifest.',
};

/** The same schema with a description for each field that has none, at every depth. */
export function withHelp(schema: Schema): Schema {
  const walked = Object.entries(schema).map(([key, value]) => {
    if (key === 'properties') return [key, described(value as Record<string, Schema>)];
    if (key === 'items' || key === 'additionalProperties') return [key, deeper(value)];
    if (Array.isArray(value) && /^(any|all|one)Of$/.test(key)) return [key, value.map(deeper)];
    return [key, value];
  });
  return Object.fromEntries(walked);
}

function described(properties: Record<string, Schema>): Record<string, Schema> {
  const entries = Object.entries(properties).map(([name, schema]) => {
    const description = schema.description ?? help[name];
    return [name, { ...withHelp(schema), ...(description ? { description } : {}) }];
  });
  return Object.fromEntries(entries);
}

function deeper(value: unknown): unknown {
  return typeof value === 'object' && value !== null ? withHelp(value as Schema) : value;
}

// The object that `/v1/<noun>/{id}` names.
const nouns: Record<string, string> = {
  ...noticeNouns,
  budgets: 'Id of a budget: GET /v1/budgets.',
  'approval-rules': 'Id of an approval rule: GET /v1/approval-rules.',
  'provider-keys': 'Id of the key: GET /v1/provider-keys.',
  'export-schedules': 'Id of the schedule: GET /v1/export-schedules.',
  'export-destinations': 'Id of the destination: GET /v1/export-destinations.',
  exports: 'Id of the export: GET /v1/exports.',
  issuers: 'Id of the identity provider: GET /v1/admin/issuers.',
  outbox: 'Id of a message: GET /v1/admin/outbox.',
  'config-rollouts': 'Id of the rollout: GET /v1/admin/config-rollouts.',
  wallets: 'Id of the wallet: GET /v1/wallets.',
  organizations: 'Id of the organization.',
  'price-imports': 'Id of the import: GET /v1/admin/price-imports.',
  'model-pricing': 'Id of the price: GET /v1/admin/model-pricing.',
  agents: 'Id of the agent: GET /v1/organizations/{id}/agents.',
  events: 'Id of the event: GET /v1/events.',
  sessions: 'Id of the payment session.',
  payments: 'Id of the payment session: GET /v1/admin/payments.',
  'settlement-excess': 'Id of the excess: GET /v1/admin/settlement-excess.',
  requests: 'request_id of the call: GET /v1/wallets/{id}/transactions.',
  reservations: 'Id of the reservation: GET /v1/wallets/{id}/transactions.',
  'cost-tickets': 'Id of the cost ticket: GET /v1/cost-tickets.',
};

/** Words for a name in the path: `id` is that of the noun before it. */
export function pathHelp(path: string, name: string): string | undefined {
  const noun = path.split('/').at(path.split('/').indexOf(`:${name}`) - 1) ?? '';
  if (path.startsWith('/v1/sessions/')) return "Id of the session, or 'current'.";
  if (name === 'id') return nouns[noun];
  if (noun === 'webhooks') return 'The payment provider that signs it.';
  if (noun === 'keys') return 'Name of the key: GET /v1/me/keys.';
  return noun === 'tokens' ? 'Name of the key: GET /v1/tokens.' : help[name];
}

/** A body that a person can send from the page: the route's own, else its required fields. */
export function exampleBody(route: string, required: readonly string[]): object | undefined {
  const own =
    examples.bodies[route] ??
    identityBodies[route] ??
    noticeBodies[route] ??
    providerKeyBodies[route];
  if (own !== undefined) return own;
  const fields = required.map((name) => [name, examples.values[name]] as const);
  return fields.some(([, value]) => value === undefined) ? undefined : Object.fromEntries(fields);
}
