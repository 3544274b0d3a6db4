import type { TraceMembers } from '../trace';

/** A model that a request may run on, by the provider's id and the model's name. */
export interface Candidate {
  provider: string;
  model: string;
}

/** The reserve body (specification: Reserve request). Tokens are counts. */
export interface Reserve extends Candidate, TraceMembers {
  org_id: string;
  estimated_prompt_tokens: number;
  request_body_hash: string;
  max_completion_tokens?: number | null | undefined;
  user_id?: string | null | undefined;
  team_id?: string | null | undefined;
  agent_id?: string | null | undefined;
  key_id?: string | null | undefined;
  secret_id?: string | null | undefined;
  session_id?: string | null | undefined;
  request_id: string;
  family?: string | null | undefined;
  units?: { characters?: number | undefined; seconds?: number | undefined } | null | undefined;
  fallbacks?: Candidate[] | null | undefined;
  session_limits?:
    | { max_actions?: number | undefined; max_cost_usd?: number | undefined }
    | null
    | undefined;
}

/** All input tokens are in `prompt_tokens`, cached, cache-write and audio included; likewise reasoning and audio in `completion_tokens`. */
export interface Usage {
  prompt_tokens: number;
  completion_tokens: number;
  cached_tokens: number;
  cache_write_tokens: number;
  cache_write_1h_tokens: number;
  reasoning_tokens: number;
  audio_input_tokens: number;
  audio_output_tokens: number;
  characters: number;
  seconds: number;
  tool_calls: number;
}

export interface Settle extends TraceMembers {
  org_id: string;
  reservation_id?: string | undefined;
  request_id?: string | undefined;
  outcome: 'completed' | 'failed' | 'canceled';
  provider?: string | undefined;
  model?: string | undefined;
  usage: Usage;
  usage_source?: 'upstream' | 'estimated' | undefined;
}

/** A ticket's hold asked for again by one call. `wait_ms` keeps the call in the queue. */
export interface Redeem extends TraceMembers {
  org_id: string;
  ticket_id: string;
  request_id: string;
  request_body_hash: string;
  key_id?: string | null | undefined;
  secret_id?: string | null | undefined;
  user_id?: string | null | undefined;
  agent_id?: string | null | undefined;
  /** The route of the call; the same bytes on another one are another request. */
  family?: string | null | undefined;
  /** The client named the ticket: it pays for this call or for none. */
  is_brought?: boolean | undefined;
  wait_ms: number;
}

/** A constraint with mode `warn` that a hold exceeds. */
export interface Warning {
  id: string;
  constraint_type: 'cost' | 'responses';
  interval: 'hour' | 'day' | 'week' | 'month';
  max_value: number;
  resets_at: string;
}
