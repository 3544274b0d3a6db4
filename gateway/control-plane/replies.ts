import type { BatchLine } from '../../domain/ledger/calls';

/** The control plane's answer to one item; `body` is the answer of the route of its own. */
export interface Reply extends Omit<BatchLine, 'id'> {
  body: Record<string, unknown>;
  /** An earlier try of the same request got no answer. */
  after_loss?: boolean;
  /** Of a request that is no batch. */
  headers?: Readonly<Record<string, string | string[] | undefined>>;
}

/** An item without an answer in time. `was_sent`: the control plane may have acted on it. */
export interface NoReply {
  status: 0;
  was_sent: boolean;
}

/** The error that a refusal carries. */
interface WireError {
  code?: string;
  message?: string;
  type?: string;
  param?: string | null;
}

/** True for an answer of the control plane, false for the lack of one. */
export function isAnswered(reply: Reply | NoReply): reply is Reply {
  return !('was_sent' in reply);
}

/** The body of an accepted answer, in the form that its route promises. */
export function bodyOf<Body>(reply: Reply): Body {
  return reply.body as Body;
}

/** The error in an answer of the control plane; empty if it is none of its own. */
export function errorOf(reply: Reply): WireError {
  return (reply.body?.error as WireError | undefined) ?? {};
}

/** True if the answer was lost, so that nobody knows what the control plane did. */
export function isLost(reply: Reply | NoReply): reply is NoReply {
  return !isAnswered(reply) && reply.was_sent;
}

/** True if the whole call was refused, not the item. */
export function isRefusedCall(reply: Reply): boolean {
  return reply.body?.refused_call === true;
}

/**
 * True if the control plane itself answered, and nothing that stands before it: a proxy's own page
 * says nothing of configurations, keys or events. Whoever says 413, the request is too large.
 */
export function isOfControlPlane(status: number, body: Reply['body'] | undefined): boolean {
  if (status === 304 || status === 413) return true;
  if (body === undefined || status < 300) return body !== undefined;
  return typeof errorOf({ status, body }).code === 'string';
}

/** The object that a text holds; undefined if it is no JSON. */
export function parseReply(text: string): Record<string, unknown> | undefined {
  try {
    return (JSON.parse(text) as Record<string, unknown> | null) ?? undefined;
  } catch {
    return undefined;
  }
}
