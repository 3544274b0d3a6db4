import type { Stage } from './call/call';
import { traced } from './call/spans';
import { forward } from './exchange/forward';
import { chooseTargets } from './stages/choose';
import { estimate } from './stages/estimate';
import { confirmKey, identify, namedByClaim } from './stages/identify';
import { limit, limitByAddress } from './stages/limit';
import { takeMembers } from './stages/members';
import { checkInput, tellSessionLimits } from './stages/policies';
import { readRequest } from './stages/read';
import { reserve } from './stages/reserve';
import { tellAtEnd } from './stages/tell-end';

/**
 * The whole story of a priced request, in order. A stage may throw an AppError, and registers with `call.onEnd` what must
 * happen however the call ends.
 */
export const priced: readonly Stage[] = pipelineOf(readRequest, chooseTargets, forward);

/** The same stages, for what is read, served and sent in another way. */
export function pipelineOf(
  read: Stage,
  choose: Stage,
  send: Stage,
  check: Stage = checkInput,
): readonly Stage[] {
  return [
    limitByAddress,
    identify,
    tellAtEnd,
    confirmed(read),
    confirmed(takeMembers),
    confirmed(choose),
    confirmed(estimate),
    limit, // Key, group, user, team, all callers, then policy packs: one decision.
    confirmed(check),
    tellSessionLimits(namedByClaim(traced('reserve', reserve))), // What no wallet covers waits for money here. Settles at the end.
    send, // With retries and fallbacks; the output policy looks beside its meter.
  ];
}

/** A stage before the reserve: the key may be known from a minute ago, so a refusal first asks whether it is still valid. */
function confirmed(stage: Stage): Stage {
  return async (call) => {
    try {
      await stage(call);
    } catch (error) {
      await confirmKey(call);
      throw error;
    }
  };
}
