import type { BatchLine } from '../../domain/ledger/calls';

/** What the control plane said to one item; `body` is what the single route would answer. */
export interface Reply extends Omit<BatchLine, 'id'> {
  body: Record<string, unknown>;
}

/** An item without an answer in time. `was_sent` tells whether the control plane may have acted on it. */
export interface NoReply {
  status: 0;
  was_sent: boolean;
}

/** The error that a refusal carries. */
export interface WireError {
  code?: string;
  message?: string;
  type?: string;
  param?: string | null;
}

/** The error in an answer of the control plane; empty where it is none of its own. */
export function errorOf(reply: Reply): WireError {
  return (reply.body?.error as WireError | undefined) ?? {};
}

/** True where the answer was lost, so that nobody knows what the control plane did. */
export function isLost(reply: Reply | NoReply): reply is NoReply {
  return reply.status === 0 && (reply as NoReply).was_sent;
}

/** True where the whole call was refused, not the item. */
export function isRefusedCall(reply: Reply): boolean {
  return reply.body?.refused_call === true;
}

/** The object that a text holds; undefined where it is no JSON. */
export function parseReply(text: string): Record<string, unknown> | undefined {
  try {
    return JSON.parse(text) as Record<string, unknown>;
  } catch {
    return undefined;
  }
}
