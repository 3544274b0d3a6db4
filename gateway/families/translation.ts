import type { Wire } from '../providers/kind';
import type { Body } from '../wire/values';
import type { Measured } from './reader';
import type { ClientRequest } from './request';

/**
 * How a family speaks to a provider of another wire: the answer's bytes are translated before
 * anything else reads them.
 */
export interface Translation {
  upstream_path: string;
  /** The body for that provider. Throws `invalid_field` for what it has no word for. */
  request(request: Pick<ClientRequest, 'body' | 'outgoing'>, model: string, wire: Wire): string;
  /** The cap of the output that it names for requests that name none. */
  default_cap?: number;
  /** Opens what turns the bytes of its answer into the family's own. */
  open(is_stream: boolean, about: AnswerHead): Translator;
}

/** What stands beside the bytes of an answer. */
export interface AnswerHead {
  headers: Readonly<Record<string, string | string[] | undefined>>;
  /** The provider's name of the model that was asked. */
  model: string;
  /** How many choices were asked for; one if absent. */
  choices?: number;
  /** What the client asked, in its own words. */
  body?: Body;
  /** What this gateway counted of it, which is charged if the provider tells no count. */
  estimated_prompt_tokens?: number;
}

export interface Translator {
  /** Throws `upstream_failed` for an answer that is too long to be translated. */
  push(chunk: Buffer): Buffer;
  /**
   * The rest of the translation, when the answer ends; of one that broke off, if it was whole by
   * then.
   */
  end(is_broken?: boolean): Buffer;
  /** True for an answer that could not be translated, which may be one all the same. */
  hasFailed?(): boolean;
  /** Adds the usage that the provider has given so far to the figures of the translated answer. */
  tell(measured: Measured): void;
}
