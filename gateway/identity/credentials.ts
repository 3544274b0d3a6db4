import { hash } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';
import type { Identity } from '../../domain/people/identity';
import type { Proof } from '../../domain/trace';
import type { ControlPlane } from '../control-plane/client';
import type { Identities } from './memory';

/** How callers of one configuration prove who they are. */
export interface Identifier {
  /** The caller, from memory if that is fresh. Throws `invalid_credential`. */
  who(head: Head): Identity | Promise<Identity>;
  /** The same, asked now: a key revoked a moment ago is refused. */
  confirm(head: Head): Promise<Identity>;
  /** The proof that a request is judged by, whether it holds or not. */
  proofOf(head: Pick<Head, 'headers'>): Proof;
}

/** One proof: how it knows a caller. */
export type Prover = Omit<Identifier, 'proofOf'>;

/** What is read of a request to know its caller. */
export interface Head {
  readonly headers: IncomingHttpHeaders;
  readonly socket: { readonly remoteAddress?: string | undefined };
}

/** What outlives a configuration, and where its requests come from. */
export interface Given {
  identities: Identities['inTurn'];
  control_plane: ControlPlane;
  /** Where a request comes from, by the configuration's proxies. */
  addressOf: (head: Head) => string;
}

export const bearer_form = /^bearer\s+(\S+)\s*$/i;
/** The longest id or label of a caller. */
export const LABEL_MAX = 200;

/** By what a credential is remembered. */
export function digestOf(credential: string): string {
  return hash('sha256', credential, 'base64');
}
