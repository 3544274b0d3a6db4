import type { Dispatcher } from 'undici';
import type { AppError } from '../../domain/errors';
import { connectionsTo } from '../../runtime/outgoing';
import { isOpenedByKey, secretsOf } from '../config/auth';
import type { Settings } from '../config/settings';
import {
  providerOf,
  type ServedModel,
  servedModels,
  shapeOf,
  spokenBy,
  type TargetSettings,
  urlOf,
} from '../config/targets';
import type { Served, Shape, Wire } from '../providers/kind';
import { type Breaker, createBreaker } from './breaker';
import type { Credentials } from './credentials/credential';
import type { Credential } from './credentials/outbound';

/** A server behind this gateway: where it is, and the connections to it. */
export interface Upstream {
  id: string;
  /** Its name in the price list. */
  provider: string;
  /** The path of the base URL, without a slash at its end. */
  base_path: string;
  /** The gateway's own credential and name; a client's never goes upstream. */
  headers: Readonly<Record<string, string>>;
  first_byte_ms: number;
  origin: string;
  pool: Dispatcher;
  /** How it speaks its wire, if it is one of models. */
  wire?: Wire;
  /** The organization's own key by which it is asked; absent: the platform's. */
  own_key_id?: string;
  /** What that key was last refused with. */
  troubles?: { refusal?: AppError | undefined };
}

/** An upstream that serves models. */
export interface Target extends Upstream {
  /** The query of the base URL, with its question mark; it ends each path. */
  query: string;
  shape: Shape;
  /** How its provider speaks that wire. */
  wire: Wire;
  /** Says who asks. */
  credential: Credential;
  /** Those of its settings, and those that its server lists if it discovers them. */
  models: readonly ServedModel[];
  /** Where it is: what another configuration knew of this place is known. */
  url: string;
  weight: number;
  /** Its tokens for one of ours. */
  token_factor: number;
  breaker: Breaker;
  /**
   * True if it is asked with a key and nothing else, so that it may be asked with another one, and
   * if keys of organizations may go there.
   */
  takes_keys: boolean;
  /** What its settings send beside its credential, and no client may read. */
  secrets: readonly string[];
}

/** One way to serve a request: a target, and what it calls the model. */
export interface Candidate {
  target: Target;
  /** As clients ask for it. */
  name: string;
  /** As the price list and the bill call it. */
  model: string;
  /** As the provider does. */
  upstream: string;
}

/** A family of routes, as far as targets serve it or not. */
export interface Sought {
  name: string;
  shapes: readonly Shape[];
  /** What it asks of a target of a shape, if that is another family's. */
  asks?: Partial<Record<Shape, Served>>;
}

/** The gateway's own headers, whoever asks. */
export const own_headers = { 'user-agent': 'svc-gateway', 'accept-encoding': 'identity' };
// Anthropic's tokenizer is not public; measured by its users, it makes up to a fifth more tokens of
// a text.
const token_factors: Record<Shape, number> = {
  openai: 1,
  anthropic: 1.2,
  gemini: 1,
  converse: 1.2,
};

/** True for a target that keys of organizations may go to, if it is opened by a key. */
export type OwnKeyRule = (row: TargetSettings) => boolean;

/** Opens a target by its settings. */
export function openTarget(
  row: TargetSettings,
  { timeouts, circuit_breaker }: Settings,
  { credentials, takesOwnKeys }: { credentials: Credentials; takesOwnKeys: OwnKeyRule },
): Target {
  const url = urlOf(row);
  // Each HTTP/1.1 stream holds a connection, so their number is not limited here.
  const pool = connectionsTo(url.origin, timeouts);
  const shape = shapeOf(row);
  const wire = spokenBy(row);
  const credential = credentials.open(row, wire);
  return {
    id: row.id,
    provider: providerOf(row),
    url: url.href,
    shape,
    wire,
    credential,
    models: servedModels(row),
    weight: row.weight,
    origin: url.origin,
    pool,
    token_factor: row.token_factor ?? token_factors[shape],
    breaker: createBreaker(circuit_breaker),
    takes_keys: isOpenedByKey(row) && takesOwnKeys(row),
    secrets: secretsOf(row),
    base_path: url.pathname.replace(/\/+$/, ''),
    query: url.search,
    headers: { ...wire.headers, ...credential.headers, ...own_headers },
    first_byte_ms: row.timeout_ms ?? timeouts.first_byte_ms,
  };
}

/** True if requests of the family may go to the target. */
export function serves({ shape, wire }: Pick<Target, 'shape' | 'wire'>, family: Sought): boolean {
  if (!family.shapes.includes(shape)) return false;
  return wire.families?.includes(family.asks?.[shape] ?? (family.name as Served)) ?? true;
}
