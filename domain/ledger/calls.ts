import type { GatewayEvent } from '../events';
import type { TraceMembers } from '../trace';
import type { PriceLine } from './price-sheet';

// The contract between gateway and API: bodies and answers of the machine routes, which the gateway
// has in their wire form (runtime/wire.ts: money in major units, times as ISO text), and the API
// checks (api/machine/bodies.ts). Who a key is: domain/people/identity.ts.

/** A model that a request may run on, by the provider's id and the model's name. */
export interface PricedModel {
  provider: string;
  model: string;
}

/** The amounts besides tokens that speech is priced by: characters of text, seconds of sound. */
export interface Units {
  characters: number;
  seconds: number;
}

/** What a request may bring that is priced by number; image tokens are beyond its completion. */
export interface Fees {
  web_searches: number;
  file_searches: number;
  containers: number;
  pages: number;
  image_output_tokens: number;
  audio_input_tokens: number;
  audio_output_tokens: number;
}

/** The limits of a session, this call included: a count of calls, and USD. */
export interface SessionLimits {
  max_actions?: number | undefined;
  max_cost_usd?: number | undefined;
}

/** A thing that a provider keeps: its kind, and the provider's own id of it. */
export interface NamedId {
  kind: string;
  id: string;
}

/** A stored thing, with the provider that keeps it. */
export interface StoredId extends NamedId {
  provider: string;
  /** The own key in whose account it is; absent: in that of the platform. */
  provider_key_id?: string | undefined;
}

/** The stored things that a request names, and the providers that may serve it, in order. */
export interface NamedIds {
  providers: readonly string[];
  ids: readonly NamedId[];
}

/** A reserve (specification: Reserve request). Tokens are counts, estimated by the gateway. */
export interface Reserve extends PricedModel, TraceMembers {
  org_id: string;
  estimated_prompt_tokens: number;
  /** `sha256:` and 64 hex digits: the same request finds its open ticket again. */
  request_body_hash: string;
  max_completion_tokens?: number | null | undefined;
  /** Without a cap, how many answers are held for, each as long as may be; absent is one. */
  choices?: number | null | undefined;
  user_id?: string | null | undefined;
  team_id?: string | null | undefined;
  agent_id?: string | null | undefined;
  key_id?: string | null | undefined;
  secret_id?: string | null | undefined;
  session_id?: string | null | undefined;
  /** What the call is for, in its caller's words: spend is counted by them. */
  tags?: readonly string[] | null | undefined;
  /** Names the hold: a repeat of the same body finds it. */
  request_id: string;
  family?: string | null | undefined;
  units?: Some<Units & Fees> | null | undefined;
  /** The tier that it names; of `auto` and `default` the dearest that is priced is held. */
  service_tier?: string | null | undefined;
  /** The region that the request names. */
  region?: string | null | undefined;
  /** How long the cache is to hold that its prompt may be written to; absent: it marks none. */
  cache_life?: '5m' | '1h' | null | undefined;
  /** The other candidates: their prices are frozen too, and the dearest is held. */
  fallbacks?: readonly PricedModel[] | null | undefined;
  session_limits?: SessionLimits | null | undefined;
  /** They must be the organization's own, and one provider must keep them all. */
  stored_ids?: NamedIds | null | undefined;
  /** True: the caller serves by the own keys of the organization, which the answer names. */
  own_keys?: boolean | null | undefined;
}

/** How many tags a call may have, and how many characters each; how many choices. */
export const TAGS_MAX = 5;
export const TAG_LENGTH_MAX = 64;
export const CHOICES_MAX = 128;

/** A reserve as it is sent: the API makes the `request_id` that is missing. */
export type ReserveBody = Omit<Reserve, 'request_id'> & { request_id?: string | null | undefined };

/** An own key of an organization, as a hold froze it. */
export interface FrozenKey {
  /** The provider that it opens. */
  provider: string;
  provider_key_id: string;
  /** Which of its values was there. */
  version: number;
  /** What prices of its provider are multiplied with, but for the price per request. Exact. */
  price_factor: string;
  /** Where it is refused. `only`: the call fails. `first`: the platform's key serves. */
  own_keys: 'only' | 'first';
}

/** The hold that a reserve or redeem made. Amounts are nanos of the wallet's currency. */
export interface Reservation {
  reservation_id: string;
  wallet_id: string;
  wallet_owner_type: 'user' | 'team' | 'organization';
  estimated_cost_nanos: bigint;
  /** The estimate and the buffer. */
  reserved_amount_nanos: bigint;
  currency: string;
  balance_after_nanos: bigint;
  /** By the database's clock. */
  expires_at: Date;
  /** The completion that the hold pays for, in tokens; an older API does not say. */
  max_completion_tokens?: bigint | null | undefined;
  warnings: (Warning | BudgetWarning)[];
  /** The provider that keeps the stored things which the request names. */
  stored_provider?: string | undefined;
  /** The own key in whose account they are, else the platform's, and the target that made them. */
  stored_key_id?: string | undefined;
  stored_at?: string | undefined;
  /** The own keys by which its providers are asked; absent: there are none. */
  own_keys?: FrozenKey[] | undefined;
  /** Of a redeem: what its ticket froze prices of; an older API does not say. */
  priced_models?: PricedModel[] | undefined;
}

/** A constraint with mode `warn` that a hold exceeds; its type says what `max_value` counts. */
export interface Warning {
  id: string;
  constraint_type: 'cost' | 'responses';
  interval: 'hour' | 'day' | 'week' | 'month';
  max_value: number;
  /** ISO 8601. */
  resets_at: string;
}

/** A budget that has reached one of its thresholds with a hold. */
export interface BudgetWarning {
  id: string;
  warning_type: 'budget';
  owner_type: 'key' | 'user' | 'team' | 'organization';
  owner_id: string;
  window: 'hour' | 'day' | 'week' | 'month' | 'life';
  /** The highest that it has reached, in percent. */
  threshold_pct: number;
  /** What it allows in this window, and what is spent and held of it. */
  limit_nanos: bigint;
  used_nanos: bigint;
  /** ISO 8601; null for a life. */
  resets_at: string | null;
}

/**
 * The usage of an answer, as the upstream tells it or the gateway counts it: tokens unless the name
 * says otherwise; absent is 0. Cached, cache-write, audio, image and video input tokens are in
 * `prompt_tokens`; reasoning, audio, image and video output tokens in `completion_tokens`.
 */
export interface Usage {
  prompt_tokens: number;
  completion_tokens: number;
  cached_tokens: number;
  cache_write_tokens: number;
  /** Kept for an hour, at a price of its own; not among `cache_write_tokens`. */
  cache_write_1h_tokens?: number;
  reasoning_tokens: number;
  audio_input_tokens: number;
  audio_output_tokens: number;
  image_input_tokens?: number | undefined;
  image_output_tokens?: number | undefined;
  video_input_tokens?: number | undefined;
  video_output_tokens?: number | undefined;
  characters?: number | undefined;
  /** Of sound. */
  seconds?: number | undefined;
  /** Runs of tools that the provider bills by number, of no kind below. */
  tool_calls?: number | undefined;
  web_searches?: number | undefined;
  file_searches?: number | undefined;
  /** Sandboxes that the provider ran code in. */
  containers?: number | undefined;
  pages?: number | undefined;
  /** The tier of service and the region that the answer named. */
  service_tier?: string | undefined;
  region?: string | undefined;
}

/** A settle names its hold by `reservation_id` or by the `request_id` of the reserve. */
export interface Settle extends TraceMembers {
  org_id: string;
  reservation_id?: string | undefined;
  request_id?: string | undefined;
  outcome: 'completed' | 'failed' | 'canceled';
  /** The model that served, if it was a fallback of the reserve. */
  provider?: string | undefined;
  model?: string | undefined;
  /** The own key that served; absent: the platform's. */
  provider_key_id?: string | undefined;
  /** Absent only with the outcome `canceled`: nothing was used. */
  usage?: Usage | undefined;
  usage_source?: 'upstream' | 'estimated' | undefined;
  /** What the provider says that the call cost: USD as exact decimal text. No money follows it. */
  provider_cost_usd?: string | undefined;
  /** What the provider keeps of the answer, and at which target of the gateway it was made. */
  stored_ids?: readonly StoredId[] | undefined;
  stored_at?: string | undefined;
  /** Asks for the `price_lines` too. */
  with_cost?: boolean | undefined;
}

/** A settle as it is sent: the API finds the organization of a `reservation_id`. */
export type SettleBody = Omit<Settle, 'org_id'> & Some<Pick<Settle, 'org_id'>>;

/** How a call ended: the part of its settle that the answer decides. */
export type Outcome = Pick<Settle, 'outcome' | 'usage' | 'usage_source'>;

/** The result of a settle. Amounts are nanos of the wallet's currency. */
export interface Settlement {
  /** Null, like the wallet and its balance, if a request without a hold was canceled. */
  reservation_id: string | null;
  status: 'settled' | 'late' | 'released';
  actual_cost_nanos: bigint;
  released_amount_nanos: bigint;
  wallet_id: string | null;
  balance_after_nanos: bigint | null;
  transaction_id: string | null;
  /** If they were asked for: they add up to the cost. */
  price_lines?: PriceLine[] | undefined;
}

/** One call asks again for the hold of a ticket. Its answer is a `Reservation`. */
export interface Redeem extends TraceMembers {
  org_id: string;
  ticket_id: string;
  request_id: string;
  request_body_hash: string;
  key_id?: string | null | undefined;
  secret_id?: string | null | undefined;
  user_id?: string | null | undefined;
  /** Taken and not read: the ticket knows its team. */
  team_id?: string | null | undefined;
  agent_id?: string | null | undefined;
  /** The route of the call; the same bytes on another one are another request. */
  family?: string | null | undefined;
  /** The client named the ticket: it pays for this call or for none. */
  is_brought?: boolean | undefined;
  /** As in the reserve. */
  stored_ids?: NamedIds | null | undefined;
  /** How long the call stays in the queue for money, in milliseconds; 0 asks once. */
  wait_ms: number;
}

/** Keeps open holds alive, those of several organizations together. */
export interface Extend {
  items: { org_id: string; reservation_id: string }[];
}

/** The result of an extend for one hold. */
export interface Extension {
  reservation_id: string;
  status: 'extended' | 'expired' | 'settled' | 'unknown';
  expires_at: Date | null;
}

/** Many calls in one; the answer is one `BatchLine` an item, each as soon as it is there. */
export interface Batch {
  items: BatchItem[];
  /** Written in the transaction of an item; refused, with 503, where that cannot be. */
  events?: { id: string; items: GatewayEvent[] } | undefined;
}

export interface BatchItem {
  /** Chosen by the sender, for this batch only. */
  id: string;
  op: 'reserve' | 'settle' | 'extend';
  /** The body that the route of its own takes. */
  body: object;
}

/** The answer to one item: status and body are those of the route of its own. */
export interface BatchLine {
  id: string;
  status: number;
  body: unknown;
}

/** Members that a body may leave out. */
export type Some<Whole> = { [member in keyof Whole]?: Whole[member] | undefined };
