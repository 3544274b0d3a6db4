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
 * The members of a body that carry the trace, absent while traces are off; the ledger ignores them.
 */
export type TraceMembers = { [member in keyof Trace]?: Trace[member] | undefined };

/** The trace that a body names. */
export function traceOf({ traceparent, identity_proof_method }: TraceMembers): Trace | undefined {
  return traceparent === undefined ? undefined : { traceparent, identity_proof_method };
}
