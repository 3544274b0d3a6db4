import type { TraceMembers } from '../../domain/trace';
import { errorOf, type NoReply, type Reply } from './replies';

/**
 * Sends a body that says whose call it is. A control plane of the version before refuses members
 * that it does not know, and has done nothing: it gets the body again without them.
 */
export async function inKnownWords<Answer extends Reply | NoReply | undefined>(
  body: TraceMembers,
  ask: (body: object) => Promise<Answer>,
): Promise<Answer> {
  const reply = await ask(body);
  return isUnknown(reply) ? ask(withoutCaller(body)) : reply;
}

/** A body without the members that only this version knows of its call. */
export function withoutCaller<Body extends TraceMembers>(body: Body): Body {
  return { ...body, identity_proof_method: undefined, trace_label: undefined };
}

function isUnknown(reply: Reply | NoReply | undefined): boolean {
  if (reply?.status !== 422) return false;
  const { code, param } = errorOf(reply as Reply);
  return code === 'unknown_field' && (param === 'trace_label' || param === 'identity_proof_method');
}
