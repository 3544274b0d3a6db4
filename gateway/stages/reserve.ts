import { hash } from 'node:crypto';
import type { PricedModel as Priced } from '../../domain/ledger/calls';
import type { Call } from '../call/call';
import { traceOf } from '../call/spans';
import { nothing_used } from '../families/usage';
import { completionCeiling } from './outcome';
import { pay } from './pay';

// Above this a digest takes milliseconds and goes to the thread pool.
const DIGEST_INLINE_BYTES = 262_144;

const nobody = { user_id: null, team_id: null };

/** The stage that holds the estimated cost, waiting for money where it must, and settles or releases it when the call ends. */
export async function reserve(call: Call): Promise<void> {
  const { gateway, identity, family, request, prices } = call;
  const [price, ...fallbacks] = prices as [Priced, ...Priced[]];
  if (call.client_is_gone) return;
  const { org_id, key_id, secret_id, proof } = identity;
  // Anybody can send the headers of header_soft, so the organization pays.
  const { user_id, team_id } = proof === 'header_soft' ? nobody : identity;
  const trace = traceOf(call);
  // Written out, here and wherever each call passes: members that follow a spread cost V8 a microsecond and 100 bytes each.
  call.reservation = await pay(call, {
    org_id,
    user_id,
    team_id,
    key_id,
    secret_id,
    agent_id: call.agent_id,
    request_id: call.request_id,
    family: family.name,
    provider: price.provider,
    model: price.model,
    fallbacks: fallbacks.length > 0 ? fallbacks : undefined,
    estimated_prompt_tokens: call.estimated_prompt_tokens,
    max_completion_tokens: request.max_completion_tokens,
    units: call.units,
    session_id: call.session_id,
    session_limits: sessionLimitsOf(call),
    request_body_hash: await bodyHash(request.raw),
    traceparent: trace.traceparent,
    identity_proof_method: trace.identity_proof_method,
  });
  const letGo = gateway.holds.keep(org_id, call.reservation);
  call.onEnd(() => {
    letGo();
    const { reservation_id } = call.reservation;
    const held_for = {
      ...nothing_used,
      prompt_tokens: call.estimated_prompt_tokens,
      completion_tokens: completionCeiling(call),
      ...call.units,
    };
    gateway.control_plane.settle(
      { org_id, reservation_id, ...servedBy(call, price), ...call.outcome, ...traceOf(call) },
      held_for,
    );
  });
}

/** A tool's call counts where it names its session; it is not refused without one, as the protocol knows none of ours. */
function sessionLimitsOf({ family, session_id, running }: Call) {
  const is_counted =
    family.talk !== undefined || (family.name === 'mcp' && session_id !== undefined);
  return is_counted ? running.policies.session_limits : undefined;
}

/** Who served, where it is not who the reservation names. */
function servedBy({ target, model }: Call, price: Priced): Partial<Priced> {
  if (target.provider === price.provider && model === price.model) return {};
  return { provider: target.provider, model };
}

async function bodyHash(raw: Buffer): Promise<string> {
  if (raw.length <= DIGEST_INLINE_BYTES) return `sha256:${hash('sha256', raw, 'hex')}`;
  const digest = await crypto.subtle.digest('SHA-256', new Uint8Array(raw));
  return `sha256:${Buffer.from(digest).toString('hex')}`;
}
