import { newId } from '../domain/ids';
import type { Logger } from '../log';
import { addToLine } from '../request-log';
import type { Span } from '../telemetry';
import type { Holds } from './budget';
import type { ClientSide } from './client-side';
import type { Configuration } from './configuration';
import type { ControlPlane, Identity, Reservation } from './control-plane';
import type { Events } from './events';
import type { Family } from './families';
import type { HeldCalls, Payment } from './held-calls';
import type { Identities } from './identities';
import type { Limited } from './limit-stages';
import type { Limits } from './limits';
import type { Outgoing } from './outgoing';
import type { Candidate, Priced, Target } from './providers';
import { enter, leave, type Running } from './running';
import type { Settlement } from './settlements';
import type { Sockets } from './sockets';
import type { Sound } from './sound';
import type { Units } from './speech';
import type { Telemetry } from './telemetry';
import { beginCall, endCall, failCall, traceIdIn } from './telemetry-spans';
import type { Tokenizer } from './tokenizer';
import type { Body } from './usage';

/** What the process has open; every call works with it. */
export interface Gateway {
  /** What the present configuration makes; a reload puts another in its place. */
  running: Running;
  control_plane: ControlPlane;
  identities: Identities;
  holds: Holds;
  held_calls: HeldCalls;
  tokenizer: Tokenizer;
  sound: Sound;
  events: Events;
  limits: Limits;
  telemetry: Telemetry;
  /** Absent until the process has begun to serve. */
  configuration?: Configuration;
  sockets: Sockets;
  log: Logger;
  /** The calls under way, which a stop waits for. */
  calls: Set<Call>;
  is_draining: boolean;
}

/** What the client sent, checked. */
export interface ClientRequest {
  raw: Buffer;
  body: Body;
  model: string;
  is_stream: boolean;
  max_completion_tokens: number | null;
  outgoing: Outgoing;
}

export type Outcome = Required<Pick<Settlement, 'outcome'>> &
  Pick<Settlement, 'usage' | 'usage_source'>;

/** One proxied request. Each stage fills the fields under its name; later stages rely on them. */
export interface Call {
  readonly ctx: ClientSide;
  readonly gateway: Gateway;
  /** The configuration that it began with. */
  readonly running: Running;
  readonly family: Family;
  /** Random, minted here: it makes the reserve safe to repeat. The client's x-request-id is only a label. */
  readonly request_id: string;
  /** Milliseconds of `performance.now()`. */
  readonly began_at: number;
  client_is_gone: boolean;
  /** Absent where traces are off. */
  span?: Span | undefined;
  /** The span of the stage that runs, where it has one. */
  step?: Span | undefined;
  /** limitByAddress; absent where no limit is configured. */
  limited?: Limited;
  /** It waits for what may never come, so that a stop ends it at once. */
  is_listening?: boolean;
  /** identify */
  identity: Identity;
  /** readRequest */
  request: ClientRequest;
  /** takeMembers */
  session_id: string | undefined;
  /** chooseTargets */
  candidates: readonly Candidate[];
  prices: readonly Priced[];
  /** The candidate that serves now, and what it calls the model. */
  target: Target;
  model: string;
  /** estimate */
  agent_id: string | null;
  payment: Payment;
  estimated_prompt_tokens: number;
  units: Units | undefined;
  /** reserve */
  reservation: Reservation;
  /** forward; until then a call that ends was canceled. */
  outcome: Outcome;
  /** How often some target was asked. */
  attempts: number;
  /** Breaks the exchange with the upstream, for a stop that cannot wait longer. */
  abort?: (reason: Error) => void;
  /** Runs when the call ends, however it ends; the last one registered goes first. */
  onEnd(step: () => void): void;
  onClientGone(step: () => void): void;
}

export type Stage = (call: Call) => void | Promise<void>;

/** Runs the stages over one request, then what they registered. */
export async function runCall(
  {
    ctx,
    gateway,
    family,
    running = gateway.running,
  }: Pick<Call, 'ctx' | 'gateway' | 'family'> & { running?: Running },
  stages: readonly Stage[],
): Promise<void> {
  const ends: (() => void)[] = [];
  const leavings: (() => void)[] = [];
  const call = {
    ctx,
    gateway,
    running,
    family,
    request_id: newId('req'),
    began_at: performance.now(),
    client_is_gone: false,
    outcome: { outcome: 'canceled' },
    attempts: 0,
    onEnd: (step: () => void) => void ends.push(step),
    onClientGone: (step: () => void) => void leavings.push(step),
  } satisfies Partial<Call> as unknown as Call;
  // The request's own `close` fires once its body is read; only the response tells that the client has gone.
  ctx.res.once('close', () => {
    if (ctx.res.writableFinished) return;
    call.client_is_gone = true;
    for (const step of leavings) step();
  });
  gateway.calls.add(call);
  enter(call.running);
  if (gateway.telemetry.tracing !== undefined) beginCall(call);
  try {
    for (const stage of stages) await stage(call);
  } catch (error) {
    failCall(call, error);
    throw error;
  } finally {
    for (const end of ends.reverse()) end();
    gateway.calls.delete(call);
    leave(call.running);
    endCall(call);
    addToLine(ctx, lineOf(call));
  }
}

/** What the log says of a call: whose it was, who served it, and what it was settled at, as far as it came; the log leaves out what is undefined. */
function lineOf(call: Partial<Call>) {
  const { identity, target, model, request, reservation, outcome, attempts } = call;
  const settled = reservation && outcome;
  return {
    trace_id: traceIdIn(call),
    org_id: identity?.org_id,
    key_id: identity?.key_id ?? undefined,
    identity_proof_method: identity?.proof,
    target: target?.id,
    attempts: attempts || undefined,
    provider: target?.provider,
    model: target && model,
    is_stream: target && request?.is_stream,
    reservation_id: reservation?.reservation_id,
    outcome: settled?.outcome,
    prompt_tokens: settled?.usage?.prompt_tokens,
    completion_tokens: settled?.usage?.completion_tokens,
  };
}
