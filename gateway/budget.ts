import { hash } from 'node:crypto';
import { AppError } from '../domain/errors';
import type { Call } from './call';
import type { ControlPlane, Reservation } from './control-plane';
import { pay, paymentOf } from './held-calls';
import { completionCeiling } from './outcome';
import type { Priced } from './providers';
import { traceOf } from './telemetry-spans';
import { encodingOf } from './tokenizer';
import { nothing_used } from './usage';

const SWEEP_MS = 250;
const LIFE_MIN_MS = 1_500;
// What the control plane takes in one call; the rest goes with the next sweep.
const EXTENDS_MAX = 1_000;
// Far above what any model reads; the ledger takes whole numbers only.
const TOKENS_MAX = 1_000_000_000_000;
// Above this a digest takes milliseconds and goes to the thread pool.
const DIGEST_INLINE_BYTES = 262_144;

/** The stage that counts what goes upstream, and reads how the client wants it paid. */
export async function estimate(call: Call): Promise<void> {
  const { gateway, family, request, candidates } = call;
  call.agent_id = call.identity.agent_id ?? agentOf(call);
  call.payment = paymentOf(call);
  const input = family.input(request.body);
  const counted = gateway.tokenizer.count(input.texts, encodingOf(call.model));
  const text_tokens = typeof counted === 'number' ? counted : await counted;
  call.units = family.units?.(request.body, text_tokens);
  const unseen_tokens = input.unseen * call.running.settings.estimates.unseen_input_tokens;
  // Whoever serves in the end, the hold covers it.
  const factor = Math.max(...candidates.map(({ target }) => target.token_factor));
  const tokens = Math.ceil(text_tokens * factor) + input.tokens + unseen_tokens;
  // Nothing that goes upstream is free to ask.
  call.estimated_prompt_tokens = Math.max(1, Math.min(tokens, TOKENS_MAX));
}

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

/** The open holds, prolonged every third of their life while their streams run. */
export interface Holds {
  keep(org_id: string, reservation: Reservation): () => void;
  close(): void;
}

interface Hold {
  org_id: string;
  reservation_id: string;
  life_ms: number;
  extend_at: number;
}

export function openHolds(control_plane: ControlPlane): Holds {
  const holds = new Map<string, Hold>();
  const sweep = async (): Promise<void> => {
    const now = performance.now();
    const due = [...holds.values()].filter((hold) => hold.extend_at <= now).slice(0, EXTENDS_MAX);
    for (const hold of due) hold.extend_at = now + hold.life_ms / 3;
    if (due.length === 0) return;
    const items = due.map(({ org_id, reservation_id }) => ({ org_id, reservation_id }));
    for (const { reservation_id, status } of await control_plane.extend(items)) {
      if (status !== 'extended') holds.delete(reservation_id);
    }
  };
  const timer = setInterval(() => void sweep(), SWEEP_MS).unref();
  return {
    keep(org_id, { reservation_id, expires_at }) {
      const life_ms = Math.max(Date.parse(expires_at) - control_plane.now(), LIFE_MIN_MS);
      const extend_at = performance.now() + life_ms / 3;
      holds.set(reservation_id, { org_id, reservation_id, life_ms, extend_at });
      return () => void holds.delete(reservation_id);
    },
    close: () => clearInterval(timer),
  };
}

const AGENT_HEADER = 'x-svc-agent-id';
const AGENT_LENGTH_MAX = 200;

function agentOf({ ctx }: Call): string | null {
  const agent_id = ctx.req.headers[AGENT_HEADER] as string | undefined;
  if (agent_id === undefined) return null;
  if (agent_id.length <= AGENT_LENGTH_MAX) return agent_id;
  throw new AppError('invalid_field', `${AGENT_HEADER} is not the id of an agent.`, {
    param: AGENT_HEADER,
  });
}

async function bodyHash(raw: Buffer): Promise<string> {
  if (raw.length <= DIGEST_INLINE_BYTES) return `sha256:${hash('sha256', raw, 'hex')}`;
  const digest = await crypto.subtle.digest('SHA-256', new Uint8Array(raw));
  return `sha256:${Buffer.from(digest).toString('hex')}`;
}
