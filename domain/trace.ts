/** The trace that a call is part of. */
export interface Trace {
  /** W3C Trace Context. */
  traceparent: string;
  identity_proof_method?: string | undefined;
}

/** What bodies say of it; the ledger takes no part in it. */
export type TraceMembers = { [member in keyof Trace]?: Trace[member] | undefined };

/** The trace that a body names. */
export function traceOf({ traceparent, identity_proof_method }: TraceMembers): Trace | undefined {
  return traceparent === undefined ? undefined : { traceparent, identity_proof_method };
}
