import type { IncomingMessage } from 'node:http';
import type { Writable } from 'node:stream';
import type { AppError } from '../../domain/errors';

/** The client's side of a call: Koa's context of an HTTP request, or one frame of a socket. */
export interface ClientSide {
  readonly method: string;
  readonly path: string;
  /** The request, of a frame the one that opened its socket. */
  readonly req: IncomingMessage;
  readonly res: ClientResponse;
  readonly state: Record<string, unknown>;
  /** The body, if it did not come as that of an HTTP request. */
  readonly given?: Buffer;
  /** The answer, unless a stage has taken over `res`. */
  status: number;
  body: unknown;
  /** False once `res` is written to. */
  respond?: boolean | undefined;
  set(fields: Record<string, string | string[]>): void;
  set(name: string, value: string | string[]): void;
  /** Sends a refusal while its call goes on, if that is no HTTP response. The call still throws it in the end. */
  tellNow?(refusal: AppError): void;
}

/** Takes a head, then the bytes of a body or of an event stream. */
export interface ClientResponse extends Writable {
  readonly headersSent: boolean;
  statusCode: number;
  writeHead(status: number, headers: Record<string, string>): unknown;
  flushHeaders(): void;
}
