import { askForUsage, checkKeys, modelOf, nameModel, parseBody, readBody, streamOf } from './body';
import { estimate, reserve } from './budget';
import type { Call, Stage } from './call';
import { confirmKey, identify } from './identity';
import { chooseTarget } from './models';
import { forward } from './proxy';
import type { Body } from './usage';

/**
 * The whole story of a priced request, in order. A stage may throw an AppError, and registers with `call.onEnd` what must
 * happen however the call ends.
 */
export const priced: readonly Stage[] = [
  // The limit by IP address belongs here, before anybody is known.
  identify,
  confirmed(readRequest),
  confirmed(chooseTarget),
  leaveUnasked,
  confirmed(estimate),
  // The limits of key, group, user, team and all belong here, then those of policy packs, then the input policy.
  reserve, // What no wallet covers waits for money here. Settles at the end.
  forward, // Retry and fallback belong into it, the output policy beside its meter.
  // Events belong here.
];

/** Reads and checks the body, once. */
async function readRequest(call: Call): Promise<void> {
  const { ctx, running, family } = call;
  const raw = await readBody(ctx.req, running.settings.body_limit_bytes);
  const text = raw.toString('utf8');
  const body = parseBody(text);
  const span = checkKeys(text);
  family.check?.(body);
  const is_stream = family.may_stream && streamOf(body);
  const hides_usage = is_stream && family.usage_is_asked && !asksForUsage(body);
  call.request = {
    raw,
    body,
    is_stream,
    hides_usage,
    model: modelOf(body, family.default_model),
    max_completion_tokens: family.max_completion_tokens(body),
    upstream: hides_usage ? askForUsage(raw, text, body, span) : raw,
  };
  if (body.model === undefined) call.request.upstream = nameModel(raw, call.request.model);
}

function asksForUsage({ stream_options }: Body): boolean {
  return (stream_options as Body | null | undefined)?.include_usage === true;
}

/** Some providers refuse `stream_options`: they get the client's own bytes, and their streams are billed by count. */
function leaveUnasked({ target, request }: Call): void {
  if (target.stream_usage || !request.hides_usage) return;
  request.upstream = request.raw;
  request.hides_usage = false;
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
