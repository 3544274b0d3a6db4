import type { ErrorBody } from '../../domain/errors';
import type { Units } from '../../domain/ledger/calls';
import type { PolicyRoute } from '../config/policies';
import type { Talk } from '../policy/talk';
import type { Served, Shape } from '../providers/kind';
import type { Body } from '../wire/values';
import type { Demand } from './demand';
import type { Input } from './input';
import type { Measured, Reader } from './reader';
import type { ArrivingRequest, ClientRequest } from './request';
import type { Keeping } from './stored';
import type { Translation } from './translation';

/** All that distinguishes one family of proxy routes from another. */
export interface Family {
  name: string;
  /** Where clients ask for it; absent: it has a way of its own. */
  path?: string;
  /** The wires of the targets that serve it; the first is the one that its own bodies speak. */
  shapes: readonly Shape[];
  /** What it asks of a target of a shape, if that is another family's route. */
  asks?: Partial<Record<Shape, Served>>;
  /** How it speaks to the others. */
  translations?: Partial<Record<Shape, Translation>>;
  /** Behind the target's base URL. */
  upstream_path: string;
  may_stream: boolean;
  /** Nothing is held or charged for it. */
  is_free?: boolean;
  /** Its streams give their usage only if `stream_options` asks for it. */
  usage_is_asked: boolean;
  has_output: boolean;
  /** For bodies that name none. */
  default_model?: string;
  /** Reads a request that is no JSON. */
  read?(request: ArrivingRequest): Promise<ClientRequest>;
  /** Refuses what this family does not take. */
  check?(body: Body): void;
  input(body: Body): Input;
  /** The cap of its output, of all its choices; null: the ledger chooses one. */
  max_completion_tokens(body: Body): number | null;
  /**
   * The cap that a request without one has: it is written into what is sent, as not all providers
   * of the wire have one, or take null for it.
   */
  written_cap?: { member: string; tokens: number };
  /** How often the cap that the ledger chooses is held for; once if absent or undefined. */
  uncapped_choices?(body: Body): number | undefined;
  /** How many choices its stream has; one if absent. */
  choices?(body: Body): number;
  /** What the request asks for beyond tokens; throws if nothing can price it. */
  demand?(body: Body): Demand;
  /** The priced units besides tokens, as the request gives them. */
  units?(body: Body, text_tokens: number): Units;
  /** How long the sound that was sent may be at most, if that is not what its units say. */
  mostSeconds?(body: Body): number;
  /** How long so many bytes of an answer last, if their number says so. */
  secondsIn?(body: Body, bytes: number, head?: Buffer): number | undefined;
  /** Its answers are bytes, unless they are an event stream. */
  is_binary?: boolean;
  reader: Reader;
  /** What providers keep of its answers, so that its requests may name it. */
  keeps?: Keeping;
  /** What `policies.routes` calls it; policies run over no family without such a name. */
  policy_route?: PolicyRoute | 'mcp';
  /** How policies read it; MCP has a way of its own. */
  talk?: Talk;
  /**
   * It takes the members that the specification adds: a session, one form of `response_format`, and
   * `cache_control` if policy allows it.
   */
  takes_members?: boolean;
  /**
   * Its calls count for the session that they name; they are not refused if they name none, as its
   * protocol knows no session of ours.
   */
  counts_named_sessions?: boolean;
  /** Its wire has no `response_format`: the same stands in `text`. */
  format_in_text?: boolean;
  /** The frame that ends a broken stream; both majors of the official SDK throw on it. */
  errorFrame(body: ErrorBody, found: Measured): string;
}
