import type { IncomingHttpHeaders } from 'node:http';
import type { Desk } from './desk';
import type { Fault, FaultPoint, Subject } from './faults';
import type { Sender } from './sender';
import type { Order } from './store';

export interface ProviderRequest {
  method: string;
  path: string;
  query: URLSearchParams;
  /** The matches of the groups of the route's pattern. */
  params: string[];
  headers: IncomingHttpHeaders;
  body: Buffer;
  /** The address under which the caller has reached this server. */
  base_url: string;
}

export interface ProviderResponse {
  status: number;
  /** Text is sent as a page; anything else as JSON. */
  body?: unknown;
  headers?: Record<string, string>;
}

/** Thrown by a wire's work: the answer that refuses it. */
export class Refused extends Error {
  readonly answer: ProviderResponse;

  constructor(answer: ProviderResponse) {
    super(`refused with ${answer.status}`);
    this.answer = answer;
  }
}

export interface WireRoute {
  method: 'GET' | 'POST';
  path: RegExp;
  /** The point at which scripts of misbehaviour apply. */
  point?: FaultPoint;
  subject?: (request: ProviderRequest) => Subject | undefined;
  is_public?: boolean;
  work: (request: ProviderRequest, script?: Fault) => ProviderResponse;
}

/** One provider's wire over the desk that both share. */
export interface Wire {
  desk: Desk;
  sender: Sender;
  routes: readonly WireRoute[];
  page: HostedPage;
  /** The refusal of a caller without good credentials. */
  unauthorized: (request: ProviderRequest) => ProviderResponse | undefined;
  unknown: (request: ProviderRequest) => ProviderResponse;
  /** An error that a script asked for, with the issue that it names. */
  fault: (status: number, issue?: string) => ProviderResponse;
  key: (request: ProviderRequest) => string | undefined;
  /** True for an answer that is repeated under its idempotency key. */
  isKept: (status: number) => boolean;
  repeat: (kept: ProviderResponse) => ProviderResponse;
  /**
   * The refusal of another request under a key that was used; if it is undefined, the first answer
   * is repeated.
   */
  conflict?: ProviderResponse;
}

/** One arrived request, as GET /sandbox/requests shows it. */
export interface Arrival {
  at: string;
  method: string;
  path: string;
  headers: IncomingHttpHeaders;
  body: string;
  /** Null if no answer was sent. */
  status: number | null;
}

/** The look of one provider's hosted pages, and the addresses that they send the buyer to. */
export interface HostedPage {
  name: string;
  colour: string;
  /** The order that a path names; undefined if it is no hosted page. */
  orderId: (request: Pick<ProviderRequest, 'path' | 'query'>) => string | undefined;
  returnUrl: (order: Order) => string;
  cancelUrl: (order: Order) => string;
  amountText: (order: Order) => string;
}
