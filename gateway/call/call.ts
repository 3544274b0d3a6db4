import type { Outcome, PricedModel as Priced, Units } from '../../domain/ledger/calls';
import type { Identity } from '../../domain/people/identity';
import type { Logger } from '../../runtime/log';
import type { Span } from '../../runtime/telemetry/spans';
import type { ControlPlane, Reservation } from '../control-plane/client';
import type { Events } from '../control-plane/events';
import type { Holds } from '../control-plane/holds';
import type { Sound } from '../counting/sound';
import type { Tokenizer } from '../counting/tokenizer';
import type { Family } from '../families/family';
import type { ClientRequest } from '../families/request';
import type { Identities } from '../identity/memory';
import type { Limited } from '../limits/buckets';
import type { Limits } from '../limits/engine';
import type { Telemetry } from '../telemetry/exports';
import type { Candidate, Target } from '../upstreams/targets';
import type { ClientSide } from './client-side';
import type { HeldCalls, Payment } from './held-calls';
import type { Running } from './snapshot';

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
  log: Logger;
  /** The calls under way, which a stop waits for. */
  calls: Set<Call>;
  is_draining: boolean;
}

/** One proxied request. Each stage fills the fields under its name; later stages rely on them. */
export interface Call {
  readonly ctx: ClientSide;
  readonly gateway: Gateway;
  /** The configuration that it began with. */
  readonly running: Running;
  readonly family: Family;
  /** Random, minted here: it makes the reserve safe to repeat. The client's x-request-id is only a label. */
  readonly request_id: string;
  /** The client's x-request-id, or the one that it was given. */
  readonly trace_label: string;
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
