import type { Reserve } from '../../domain/ledger/calls';
import type { TraceMembers } from '../../domain/trace';
import { errorOf, isAnswered, type NoReply, type Reply } from './replies';

/** Members that only this version knows; those of a group came together. */
const newer = [
  ['identity_proof_method', 'trace_label'],
  ['tags'],
  ['with_cost'],
  ['own_keys'],
  ['provider_cost_usd'],
  ['choices'],
  ['stored_at'],
  ['cache_life'],
] as const;

/** What the version before holds for of each choice, if a request of several has no cap. */
const CHOICE_CAP = 4_096;

/**
 * Sends a body that may have members which a control plane of the version before does not know: one
 * that refuses them has done nothing, and gets the body again without them.
 */
export async function inKnownWords<Answer extends Reply | NoReply | undefined>(
  body: object,
  ask: (body: object) => Promise<Answer>,
): Promise<Answer> {
  let known = body;
  let reply = await ask(known);
  // A 422 names one unknown member; each round leaves out the group of that one.
  for (let left = newer.length; left > 0; left -= 1) {
    const group = unknownIn(reply);
    if (group === undefined) break;
    known = without(known, group);
    reply = await ask(known);
  }
  return reply;
}

/** A body without a group of members; instead of its choices it has the cap of them all. */
function without(body: object, group: readonly string[]): object {
  const plain = { ...body, ...Object.fromEntries(group.map((name) => [name, undefined])) };
  const { choices } = body as Pick<Reserve, 'choices'>;
  if (choices == null || !group.includes('choices')) return plain;
  return { ...plain, max_completion_tokens: CHOICE_CAP * choices };
}

/** A body without the members that only this version knows of its call. */
export function withoutCaller<Body extends TraceMembers>(body: Body): Body {
  return { ...body, identity_proof_method: undefined, trace_label: undefined };
}

/** The group of the member that was refused because it is not known there. */
function unknownIn(reply: Reply | NoReply | undefined): readonly string[] | undefined {
  if (reply === undefined || !isAnswered(reply) || reply.status !== 422) return undefined;
  const { code, param } = errorOf(reply);
  if (code !== 'unknown_field') return undefined;
  return newer.find((group) => group.some((name) => name === param));
}
