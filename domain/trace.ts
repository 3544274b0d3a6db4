/**
 * How a caller of the gateway is known; it stands on every event and span (specification:
 * Authentication, rule 4).
 */
export type Proof = 'header_soft' | 'gateway_key' | 'signed_assertion';

/** The trace that a call is part of. */
export interface Trace {
  /** W3C Trace Context. */
  traceparent: string;
  identity_proof_method?: Proof | undefined;
}

/**
 * The members of a body that say of a call what its spans and events show: the trace while traces
 * are on, the proof, and the client's own label of the request. They decide nothing in the ledger.
 */
export interface TraceMembers {
  traceparent?: string | undefined;
  identity_proof_method?: Proof | undefined;
  trace_label?: string | undefined;
}

/** These members alone; undefined if a body has none of them. */
export function membersOf(body: TraceMembers): TraceMembers | undefined {
  const { traceparent, identity_proof_method, trace_label } = body;
  const is_empty = (traceparent ?? identity_proof_method ?? trace_label) === undefined;
  return is_empty ? undefined : { traceparent, identity_proof_method, trace_label };
}

/** The trace that a body names. */
export function traceOf({ traceparent, identity_proof_method }: TraceMembers): Trace | undefined {
  return traceparent === undefined ? undefined : { traceparent, identity_proof_method };
}
