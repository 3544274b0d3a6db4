import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http';
import type { Writable } from 'node:stream';
import type { AppError } from '../../domain/errors';

/** What is read of a request besides its body. */
export interface RequestHead {
  readonly headers: IncomingHttpHeaders;
  readonly socket: { readonly remoteAddress?: string | undefined };
}

interface Side {
  readonly method: string;
  readonly path: string;
  readonly res: ClientResponse;
  readonly state: Record<string, unknown>;
  /** The answer, unless a stage has taken over `res`. */
  status: number;
  body: unknown;
  /** False once `res` is written to. */
  respond?: boolean | undefined;
  set(fields: Record<string, string | string[]>): void;
  set(name: string, value: string | string[]): void;
}

/** An HTTP request: Koa's context. */
interface HttpSide extends Side {
  readonly res: ServerResponse;
  readonly req: IncomingMessage;
  readonly given?: undefined;
  readonly refuseNow?: undefined;
}

/** One frame of a socket. */
export interface FrameSide extends Side {
  /** Of the request that opened the socket, with headers of this frame's own. */
  readonly req: RequestHead;
  /** The body. */
  readonly given: Buffer;
  /** Sends a refusal while the call goes on. The call still throws it in the end. */
  refuseNow(refusal: AppError): void;
}

/** The client's side of a call. */
export type ClientSide = HttpSide | FrameSide;

/** Takes a head, then the bytes of a body or of an event stream. */
export interface ClientResponse extends Writable {
  readonly headersSent: boolean;
  statusCode: number;
  writeHead(status: number, headers: Record<string, string>): unknown;
  flushHeaders(): void;
}
