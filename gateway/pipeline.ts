import type {
  Addressed,
  Begun,
  Funded,
  Identified,
  Limited,
  Pipeline,
  Prepared,
  Read,
  Routed,
} from './call/call';
import { answerCount, counted_there } from './exchange/count';
import { forward } from './exchange/forward';
import { chooseTargets } from './stages/choose';
import { estimate } from './stages/estimate';
import { confirmKey, identify } from './stages/identify';
import { limit, limitByAddress } from './stages/limit';
import { takeMembers } from './stages/members';
import { findOwnKeys, takeOwnKeys } from './stages/own-keys';
import { checkInput, requireCover } from './stages/policies';
import { readRequest } from './stages/read';
import { reserve } from './stages/reserve';

/** What differs between requests: how they are counted, read, routed, checked and sent. */
interface Ways {
  countAddress: (call: Begun) => Addressed;
  read: (call: Identified) => Read | Promise<Read>;
  choose: (call: Prepared) => Routed | Promise<Routed>;
  /** The input policies. */
  check: (call: Limited) => void | Promise<void>;
  send: (call: Funded) => Promise<void>;
}

/** The whole story of a request to a model. */
export const priced: Pipeline = pipelineOf({
  countAddress: limitByAddress,
  read: readRequest,
  choose: chooseTargets,
  check: checkInput,
  send: forward,
});

/**
 * The whole story of a priced request, in order. A stage may throw an AppError, and registers with
 * `call.onEnd` what must happen however the call ends.
 */
export function pipelineOf({ countAddress, read, choose, check, send }: Ways): Pipeline {
  return async (begun) => {
    const addressed = countAddress(begun);
    const identified = await identify(addressed);
    await confirmed(requireCover, identified);
    const whole = await confirmed(read, identified);
    const prepared = await confirmed(takeMembers, whole);
    const routed = await confirmed(choose, prepared);
    const estimated = await confirmed(estimate, routed);
    const limited = await limit(estimated); // Key, group, user, team, all callers, then policy packs: one decision.
    await confirmed(check, limited);
    const funded = await reserve(limited); // What no wallet covers waits for money here. Settles at the end.
    if (funded === undefined) return;
    await takeOwnKeys(funded);
    await send(funded); // With retries and fallbacks; the output policy looks beside its meter.
  };
}

/**
 * The whole story of a request that is counted and not answered by a model: no money is held, so
 * the key is asked for now.
 */
export const counted: Pipeline = async (begun) => {
  const addressed = limitByAddress(begun);
  const identity = await addressed.snapshot.identifier.confirm(addressed.ctx.req);
  const identified = Object.assign(addressed, { identity });
  requireCover(identified);
  const routed = chooseTargets(takeMembers(await readRequest(identified)));
  const limited = await limit(await estimate(routed));
  await checkInput(limited);
  await findOwnKeys(limited, counted_there);
  await answerCount(limited);
};

/**
 * A stage before the reserve: the key may be known from a minute ago, so a refusal first asks
 * whether it is still valid.
 */
async function confirmed<A extends Begun, B>(
  stage: (call: A) => B | Promise<B>,
  call: A,
): Promise<B> {
  try {
    return await stage(call);
  } catch (error) {
    await confirmKey(call);
    throw error;
  }
}
