import type { Body } from '../wire/values';
import type { Measured } from './reader';

/** How a family speaks to a provider of another wire: the answer's bytes are translated before anything else reads them. */
export interface Translation {
  upstream_path: string;
  /** The body for that provider. Throws `invalid_field` for what it has no word for. */
  request(body: Body, model: string): Body;
  /** Opens what turns the bytes of its answer into the family's own. */
  open(is_stream: boolean): Translator;
}

export interface Translator {
  push(chunk: Buffer): Buffer;
  /** What is left when the answer ends. */
  end(): Buffer;
  /** Adds to what was measured of the translated answer what its provider told of its usage so far. */
  tell(measured: Measured): void;
}
