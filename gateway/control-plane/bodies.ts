/** What the settlement carries: all input with its shares, all output with its shares. What is absent is none. */
export interface Usage {
  prompt_tokens: number;
  completion_tokens: number;
  cached_tokens: number;
  cache_write_tokens: number;
  /** Written to be kept for an hour, which has a price of its own; not among `cache_write_tokens`. */
  cache_write_1h_tokens?: number;
  reasoning_tokens: number;
  audio_input_tokens: number;
  audio_output_tokens: number;
  characters?: number;
  seconds?: number;
  /** Searches and the like that the provider ran and bills by number. */
  tool_calls?: number;
}

export interface Priced {
  provider: string;
  model: string;
}

export interface SessionLimits {
  max_actions?: number;
  max_cost_usd?: number;
}

/** What speech is priced by besides tokens. */
export interface Units {
  characters: number;
  seconds: number;
}

export type Outcome = Required<Pick<Settlement, 'outcome'>> &
  Pick<Settlement, 'usage' | 'usage_source'>;

/** Who a gateway key is. Whether it is still valid, only a reserve or a verify can tell. */
export interface KeyOwner {
  key_id: string;
  secret_id: string;
  org_id: string;
  user_id: string | null;
  team_id: string | null;
  agent_id: string | null;
  /** Null is every model. */
  allowed_models: readonly string[] | null;
}

/** The proof that stands on every event and span (specification: Authentication, rule 4). */
export type Proof = 'header_soft' | 'gateway_key' | 'signed_assertion';

/** Who calls. In header_soft user and team are what the headers say: counted, never paid from. */
export interface Identity extends Omit<KeyOwner, 'key_id' | 'secret_id'> {
  proof: Proof;
  key_id: string | null;
  secret_id: string | null;
}

export interface ReserveRequest extends TraceMembers {
  org_id: string;
  user_id: string | null;
  team_id: string | null;
  agent_id: string | null;
  key_id: string | null;
  secret_id: string | null;
  request_id: string;
  family: string;
  provider: string;
  model: string;
  /** Who else may serve: their prices are frozen too, and the dearest is held. */
  fallbacks: readonly Priced[] | undefined;
  estimated_prompt_tokens: number;
  max_completion_tokens: number | null;
  units: Units | undefined;
  session_id: string | undefined;
  /** What the session may come to, this call included. */
  session_limits: SessionLimits | undefined;
  request_body_hash: string;
}

export interface Reservation {
  reservation_id: string;
  expires_at: string;
  /** The completion that the hold pays for; an older control plane does not say. */
  max_completion_tokens?: number | null;
}

/** A cost ticket asked for by one call; the control plane waits up to `wait_ms` for money. */
export interface RedeemRequest extends TraceMembers {
  ticket_id: string;
  org_id: string;
  key_id: string | null;
  secret_id: string | null;
  user_id: string | null;
  team_id: string | null;
  agent_id: string | null;
  request_id: string;
  request_body_hash: string;
  family: string;
  is_brought: boolean;
  wait_ms: number;
}

export interface ExtendResult {
  reservation_id: string;
  status: 'extended' | 'expired' | 'settled' | 'unknown';
  expires_at: string;
}

export interface Price {
  provider: string;
  model: string;
  reasoning?: boolean;
  max_output_tokens?: number | null;
}

export interface Settlement extends TraceMembers {
  org_id: string;
  reservation_id?: string;
  request_id?: string;
  /** Who served, where that is a fallback of the reserve. */
  provider?: string;
  model?: string;
  outcome: 'completed' | 'failed' | 'canceled';
  usage?: Usage;
  usage_source?: 'upstream' | 'estimated';
}

/** What items to the control plane carry of the trace; nothing while it is off. */
export interface TraceMembers {
  traceparent?: string | undefined;
  identity_proof_method?: Proof | undefined;
}
