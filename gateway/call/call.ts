import type { Outcome, PricedModel, StoredId, Units } from '../../domain/ledger/calls';
import type { Identity } from '../../domain/people/identity';
import type { Logger } from '../../runtime/log';
import type { RefusalCounts } from '../../runtime/refusal-counts';
import type { Span } from '../../runtime/telemetry/spans';
import type { ControlPlane, Reservation } from '../control-plane/client';
import type { Events } from '../control-plane/events';
import type { Holds } from '../control-plane/holds';
import type { Sound } from '../counting/sound';
import type { Tokenizer } from '../counting/tokenizer';
import type { Demand } from '../families/demand';
import type { Family } from '../families/family';
import type { ClientRequest } from '../families/request';
import type { NamedMember } from '../families/stored';
import type { Identities } from '../identity/memory';
import type { HeldLimits } from '../limits/decision';
import type { CountedAddress, Limits } from '../limits/engine';
import type { Telemetry } from '../telemetry/exports';
import type { Candidate, Upstream } from '../upstreams/target';
import type { Arrivals } from './arrivals';
import type { ClientSide } from './client-side';
import type { Cost } from './cost';
import type { HeldCalls, Payment } from './held-calls';
import type { Snapshot } from './snapshot';
import type { StoredIds } from './stored-ids';

/** What the process has open; every call works with it. */
export interface Gateway {
  /** What the present configuration makes; a reload puts another in its place. */
  snapshot: Snapshot;
  control_plane: ControlPlane;
  identities: Identities;
  holds: Holds;
  /** The calls that wait for money, and those that wait for room in a limit. */
  held_calls: HeldCalls;
  queued_calls: HeldCalls;
  arrivals: Arrivals;
  stored_ids: StoredIds;
  tokenizer: Tokenizer;
  sound: Sound;
  events: Events;
  /** Which refusals are told of. */
  refusals: RefusalCounts;
  limits: Limits;
  telemetry: Telemetry;
  log: Logger;
  /** How many figures of cost were dropped that are no amount, by provider. */
  unsound_costs: Map<string, number>;
  /** The calls under way, which a stop waits for. */
  calls: Set<Call>;
  is_draining: boolean;
  /** So long does the end of an answer wait for its cost, if its caller asks for that. */
  cost_wait_ms: number;
}

// A call grows as it passes the stages: each stage takes the type that the one before gives, and
// adds its members to the same object. So a stage can read only what earlier ones have written.

/** A call as it begins. */
export interface Begun {
  readonly ctx: ClientSide;
  readonly gateway: Gateway;
  /** The configuration that it began with. */
  readonly snapshot: Snapshot;
  readonly family: Family;
  /**
   * Random, minted here: it makes the reserve safe to repeat. The client's x-request-id is only a
   * label.
   */
  readonly request_id: string;
  /** The client's x-request-id, or the one that it was given. */
  readonly trace_label: string;
  /** Milliseconds of `performance.now()`. */
  readonly began_at: number;
  client_is_gone: boolean;
  /** Absent while traces are off. */
  span?: Span | undefined;
  /** The span of the stage that runs, if it has one. */
  step?: Span | undefined;
  /** It waits for what may never come, so that a stop ends it at once. */
  is_listening?: boolean;
  /** What it settles at; canceled until an upstream is asked. */
  outcome: Outcome;
  /** How often some target was asked. */
  attempts: number;
  /** What it was settled at, once that is known to a call that asks. */
  cost?: Cost;
  /** What it ended with, if that was thrown. */
  failure?: unknown;
  /** The model that the answer names, where that is another one than was asked. */
  answered_model?: string;
  /** What the provider says that the call cost, in USD. */
  provider_cost_usd?: string | undefined;
  /** What the last upstream that was asked refused with. */
  provider_failure?: { status: number; code: string | null };
  /** The stored things that its request names, and those that its answer has made. */
  named_ids?: readonly NamedMember[];
  /** In whose account the things are that it names: of this own key, or null, the platform's. */
  kept_by_key?: string | null;
  /** At which target they were made, by its id: it is asked first. */
  kept_at?: string | undefined;
  made_ids?: StoredId[];
  /** Breaks the exchange with the upstream, for a stop that cannot wait longer. */
  abort?: (reason: Error) => void;
  /** Runs when the call ends, however it ends; the last one registered goes first. */
  onEnd(step: () => void): void;
  onClientGone(step: () => void): void;
}

/** Its address is counted. */
export interface Addressed extends Begun {
  address: CountedAddress;
}

/** The caller is known. */
export interface Identified extends Addressed {
  identity: Identity;
}

/** The body is read and checked. */
export interface Read extends Identified {
  request: ClientRequest;
}

/** What the specification adds to the providers' wires is taken out of the body. */
export interface Prepared extends Read {
  session_id: string | undefined;
  /** What it is for, in its caller's words. */
  tags: readonly string[] | undefined;
  /** Its caller is to be told what it costs. */
  asks_cost: boolean;
}

/** The targets that serve it are known. */
export interface Routed extends Prepared {
  /**
   * The targets that serve the model, in the order in which they are tried; none for an MCP server.
   */
  candidates: readonly Candidate[];
  prices: readonly PricedModel[];
  /** The upstream that serves now, and what it calls the model. */
  target: Upstream;
  model: string;
}

/** The size of what goes upstream is known, and how the client wants it paid. */
export interface Estimated extends Routed {
  agent_id: string | null;
  payment: Payment;
  estimated_prompt_tokens: number;
  /** The provider adds input that this gateway does not see. */
  has_unseen_input: boolean;
  /** How many pictures it sends. */
  pictures: number;
  /** Those of the prompt's tokens that are of sound. */
  sound_tokens: number;
  units: Units | undefined;
  /** What it asks for beyond tokens. */
  demand: Demand;
}

/** The limits let it pass; `held_limits` is undefined if nothing was counted. */
export interface Limited extends Estimated {
  held_limits: HeldLimits | undefined;
}

/** Its cost is held in a wallet. */
export interface Funded extends Limited {
  reservation: Reservation;
  /**
   * Sends the settlement now, at the outcome so far, and not at the end. Resolves with the cost
   * once the control plane has accepted it.
   */
  settle(): Promise<Cost>;
}

/** A call, however far it has come. */
export type Call = Begun & Partial<Omit<Funded, keyof Begun>>;

/** Runs a call from its beginning to its end. */
export type Pipeline = (call: Begun) => Promise<void>;
